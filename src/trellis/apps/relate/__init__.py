"""Entities and relations."""

CLASSES = {"Relater": "trellis.apps.relate.relater"}
SECTIONS = {"Relater": "trellis.apps.relate.section:relations_page"}
READERS = {"Relater": "trellis.data.related:read_related"}
