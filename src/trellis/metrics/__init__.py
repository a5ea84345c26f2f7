"""Measures of how good outputs are: errors of alignments, taggings, clusterings."""
