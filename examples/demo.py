"""What ``make demo`` shows: for now, that the command works and what it runs on."""

from trellis.cli import main

if __name__ == "__main__":
    main(["info"])
