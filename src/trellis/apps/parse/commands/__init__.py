"""The commands of tagging and parsing."""
