"""Compiled loops of the alignment model: building its table, and the M-step over it."""

from trellis.engine.kernel_cache import guard

guard()
