"""The commands of field extraction."""
