"""Compiled loops of models: expected counts, M-steps, feature scores; arrays in, arrays out."""
