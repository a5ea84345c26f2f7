"""Dependency parsing: taggers, parsers, tree induction and transfer between languages."""

CLASSES = {
    "Parser": "trellis.apps.parse.parser",
    "Tagger": "trellis.apps.parse.tagger",
    "Transfer": "trellis.apps.parse.transfer",
    "TreeInducer": "trellis.apps.parse.tree_inducer",
}
SECTIONS = {
    "Parser": "trellis.apps.parse.section:trees_page",
    "TreeInducer": "trellis.apps.parse.section:trees_page",
    "Transfer": "trellis.apps.parse.section:trees_page",
    "Tagger": "trellis.report.labels_page:tags_page",
}
