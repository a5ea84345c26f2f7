"""Rules files: constraints written in TOML by people who write no Python. The format is in docs/rules.md."""

from trellis.constraints.rules.reading import RulesFile, parse_rules, read_rules
from trellis.constraints.rules.section import files_beside_rules_only

__all__ = ["RulesFile", "files_beside_rules_only", "parse_rules", "read_rules"]
