"""Whole applications made of the layers below: one module a task."""
