"""What ``make demo`` shows: both flagship uses on samples that ship with the project, in under two minutes."""

from __future__ import annotations

import demo_align
import demo_extract

if __name__ == "__main__":
    demo_align.main()
    demo_extract.main()
