"""Constrained argmax: beam search, A*, integer programming."""

from trellis.search.corpus import Labelling, Searcher
from trellis.search.decode import decode, decode_kbest
from trellis.search.prices import penalised_value
from trellis.search.progress import Decoded, DecodedKBest, Plan

__all__ = ["Decoded", "DecodedKBest", "Labelling", "Plan", "Searcher", "decode", "decode_kbest", "penalised_value"]
