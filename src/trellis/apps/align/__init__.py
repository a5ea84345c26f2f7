"""Word alignment of parallel text."""

CLASSES = {"Aligner": "trellis.apps.align.aligner"}
SECTIONS = {"Aligner": "trellis.apps.align.section:alignment_page"}
