"""Weak labels: combine the votes of several labelling functions."""

CLASSES = {"Aggregator": "trellis.apps.aggregate.aggregator"}
SECTIONS = {"Aggregator": "trellis.apps.aggregate.section:votes_page"}
READERS = {"Aggregator": "trellis.data.voted_files:read_voted"}
