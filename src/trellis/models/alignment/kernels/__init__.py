"""Compiled loops of the alignment model: building its table, and the M-step over it."""
