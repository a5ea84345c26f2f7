"""Rules files: constraints written in TOML by people who write no Python. The format is in docs/rules.md."""

from trellis.constraints.rules.reading import RulesFile, parse_rules, read_rules

__all__ = ["RulesFile", "parse_rules", "read_rules"]
