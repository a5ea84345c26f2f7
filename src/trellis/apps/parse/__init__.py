"""Dependency parsing: taggers, parsers, tree induction and transfer between languages."""
