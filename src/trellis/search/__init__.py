"""Constrained argmax: beam search, A*, integer programming."""

from trellis.search.corpus import Labelling, Searcher
from trellis.search.decode import decode, decode_kbest
from trellis.search.plan import Plan
from trellis.search.prices import penalised_value
from trellis.search.progress import Decoded, DecodedKBest

__all__ = ["Decoded", "DecodedKBest", "Labelling", "Plan", "Searcher", "decode", "decode_kbest", "penalised_value"]
