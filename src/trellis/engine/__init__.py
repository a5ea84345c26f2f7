"""Where shards run: in this thread or on a thread pool, with the same bits either way."""

from trellis.engine.engine import Engine, map_sum
from trellis.engine.serial import SerialEngine
from trellis.engine.shards import Shard, shards_of
from trellis.engine.threads import ThreadEngine, engine_for

__all__ = ["Engine", "SerialEngine", "Shard", "ThreadEngine", "engine_for", "map_sum", "shards_of"]
