"""Compiled loops of the projection: a dual solver in reverse-communication form, and the loops around it."""
