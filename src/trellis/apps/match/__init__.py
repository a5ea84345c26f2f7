"""Matching of names and sentences from yes/no answers."""
