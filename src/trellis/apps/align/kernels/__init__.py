"""Compiled loops of word alignment."""

from trellis.engine.kernel_cache import guard

guard()
