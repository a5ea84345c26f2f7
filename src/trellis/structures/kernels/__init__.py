"""Compiled loops of exact inference: arrays in, arrays out; they know nothing of models or text.

Each kernel works through one shard on one thread and releases the GIL; the engine brings the cores.
"""

from trellis.engine.kernel_cache import guard

guard()
