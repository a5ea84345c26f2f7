"""Matching of names and sentences from yes/no answers."""

CLASSES = {"Matcher": "trellis.apps.match.matcher"}
SECTIONS = {"Matcher": "trellis.apps.match.section:matches_page"}
READERS = {"Matcher": "trellis.data.pair_files:read_pairs"}
