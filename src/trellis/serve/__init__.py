"""Trained models over HTTP: ``trellis serve``, and what a local page needs to be safe."""
