"""Examples in docstrings run as tests; those of ``trellis.neural`` need PyTorch: pip install 'trellis-learn[torch]'."""

from importlib.util import find_spec

collect_ignore_glob = [] if find_spec("torch") else ["src/trellis/neural/*"]
