"""Weak labels: one labelling from the votes of several labelling functions."""
