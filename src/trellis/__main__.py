"""``python -m trellis`` is the ``trellis`` command."""

from trellis.cli import main

if __name__ == "__main__":
    main()
