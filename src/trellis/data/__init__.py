"""Documents, readers, writers, vocabularies, and batches of flat arrays.

Readers and writers are found here by name, and loaded on first use:

>>> import trellis
>>> trellis.data.read_columns.__module__
'trellis.data.columns'
"""

from importlib import import_module

_READERS = {
    "Document": "document", "Relation": "document", "Span": "document", "Tokeniser": "tokens", "tokenise": "tokens",
    "read_columns": "columns", "write_columns": "columns", "read_conllu": "conllu", "write_conllu": "conllu",
    "read_documents": "records", "write_documents": "records", "read_jsonlines": "jsonlines",
    "write_jsonlines": "jsonlines", "read_labelled": "text_files", "read_texts": "text_files",
    "read_related": "related", "write_related": "related", "read_voted": "voted_files", "read_wrench": "wrench",
    "read_wrench_gold": "wrench", "write_wrench": "wrench",
}  # fmt: skip


def __getattr__(name: str) -> object:
    if name in _READERS:
        return getattr(import_module(f"trellis.data.{_READERS[name]}"), name)
    raise AttributeError(f"module 'trellis.data' has no attribute {name!r}", name=name)
