"""Field extraction from rules, a few labelled texts and many unlabelled ones."""

CLASSES = {"Extractor": "trellis.apps.extract.extractor"}
SECTIONS = {"Extractor": "trellis.apps.extract.section:fields_page"}
