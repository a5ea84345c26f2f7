"""Evaluation measures for alignments, fields, trees, relations, induced states and rankings."""
