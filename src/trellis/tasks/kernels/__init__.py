"""Compiled loops of tasks."""
