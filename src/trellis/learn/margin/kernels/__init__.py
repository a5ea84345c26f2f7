"""Compiled loops of large-margin learners."""

from trellis.engine.kernel_cache import guard

guard()
