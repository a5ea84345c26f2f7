"""Compiled loops of models: expected counts, M-steps, feature scores; arrays in, arrays out."""

from trellis.engine.kernel_cache import guard

guard()
