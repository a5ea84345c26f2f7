"""Where shards run: in this thread, on a thread pool, or on a Dask cluster, with bit-identical results."""

from trellis.engine.engine import Additive, Engine, Piece, Placed, Shard, place_batch, shards_of, summed
from trellis.engine.local import SerialEngine
from trellis.engine.threads import ThreadEngine, by_chunks, chunks, engine_for, threads_for

__all__ = [
    "Additive",
    "Engine",
    "Piece",
    "Placed",
    "SerialEngine",
    "Shard",
    "ThreadEngine",
    "by_chunks",
    "chunks",
    "engine_for",
    "place_batch",
    "shards_of",
    "summed",
    "threads_for",
]
