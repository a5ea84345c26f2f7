"""Models of pairs: two strings aligned by their characters, two sentences by their words."""

from trellis.models.matching.graph_pairs import GraphPairs
from trellis.models.matching.string_pairs import StringPairs

__all__ = ["GraphPairs", "StringPairs"]
