"""Compiled loops of tasks."""

from trellis.engine.kernel_cache import guard

guard()
