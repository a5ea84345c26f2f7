"""From sentences to a batch, and back from an instance to its line."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given

from data.formats import FORMATS
from trellis.data.columns import read_columns
from trellis.data.conllu import read_conllu
from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.data.text import read_text
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, UnknownNameError

TAGS = Vocabulary(["NOUN", "VERB"], kind="tag")


@pytest.mark.slow
@given(FORMATS["jsonlines"].sentences)
def test_a_corpus_decodes_to_its_sentences(sentences: list[Document]) -> None:
    corpus = corpus_of(sentences)
    batch = corpus.batch
    assert len(batch) == len(sentences)
    if not sentences:
        return
    for i, sentence in enumerate(sentences):
        part = batch.instances(i, i + 1)
        assert tuple(part.column("word").strings()) == sentence.tokens
        assert tuple(part.column("pos").strings()) == sentence.columns["pos"]
        labels = [None if code < 0 else corpus.label_names[code] for code in part.labels.tolist()]
        assert tuple(labels) == sentence.labels


def test_labels_are_numbered_by_the_vocabulary_given() -> None:
    corpus = corpus_of([Document(("a", "b"), ("VERB", None)), Document(("c",))], label_names=TAGS)
    assert corpus.batch.labels.tolist() == [1, -1, -1]
    assert corpus.label_names is TAGS
    assert corpus_of([Document(("a",), ("VERB",))]).label_names.names == ("VERB",)


def test_an_unknown_label_is_named_with_its_own_line(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("a\tNOUN\n\nb\tVERB\nc\tNOUM\n")
    with pytest.raises(UnknownNameError) as e:
        corpus_of(read_columns(path), label_names=TAGS)
    assert str(e.value) == f"{path}, line 4: unknown tag 'NOUM'; did you mean 'NOUN'?"
    assert (e.value.path, e.value.line, e.value.kind, e.value.name) == (str(path), 4, "tag", "NOUM")
    path.write_text("1-2\tx" + "\t_" * 8 + "\n1\tx\t_\tNOUN" + "\t_" * 6 + "\n1.1\tx" + "\t_" * 8)
    with open(path, "a") as out:
        out.write("\n2\tx\t_\tVRB" + "\t_" * 6 + "\n")
    with pytest.raises(UnknownNameError, match="line 4: unknown tag 'VRB'; did you mean 'VERB'"):
        corpus_of(read_conllu(path), label_names=TAGS)


def test_an_unknown_word_is_an_error_unless_the_vocabulary_has_one_for_it(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("dog\ncat dgo\n")
    with pytest.raises(UnknownNameError, match="a.txt, line 2: unknown word 'dgo'; did you mean 'dog'"):
        corpus_of(read_text(path), words=Vocabulary(["cat", "dog"], kind="word"))
    words = Vocabulary(["<unk>", "dog"], kind="word", unknown="<unk>")
    assert corpus_of(read_text(path), words=words).batch.column("word").codes.tolist() == [1, 0, 0]


def test_instances_of_several_files_are_placed(tmp_path: Path) -> None:
    labelled, plain = tmp_path / "a.tsv", tmp_path / "b.txt"
    labelled.write_text("a\tNOUN\n\nb\tVERB\n")
    plain.write_text("c\n\nd\n")
    made = [Document(("e",))]
    corpus = corpus_of(chain(read_columns(labelled), read_text(plain), made))
    places = [(str(labelled), 1), (str(labelled), 3), (str(plain), 1), (str(plain), 2), (str(plain), 3), (None, None)]
    assert [corpus.place(i) for i in range(6)] == places
    assert corpus.batch.offsets.tolist() == [0, 1, 2, 3, 3, 4, 5]


def test_no_sentences_are_an_empty_batch() -> None:
    corpus = corpus_of([])
    assert len(corpus.batch) == corpus.batch.n_slots == len(corpus.label_names) == len(corpus.lines) == 0


def test_columns_must_agree() -> None:
    with pytest.raises(DataError, match="f, line 3: expected the columns \\['pos'\\] of the first sentence"):
        corpus_of([Document((), columns={"pos": ()}), Document((), path="f", line=3)])
    with pytest.raises(DataError, match="cannot be named 'word'"):
        corpus_of([Document((), columns={"word": ()})])


def test_sentences_check_their_own_lengths() -> None:
    with pytest.raises(DataError, match="f, line 3: found 1 token but 2 labels"):
        Document(("a",), ("X", "Y"), path="f", line=3)


@pytest.mark.slow
def test_sentences_stream_through_in_few_bytes_a_word() -> None:
    def many() -> Iterator[Document]:
        for i in range(20_000):
            yield Document(tuple("word" + str(j % 50) for j in range(i, i + 10)), ("X",) * 10, path="f", line=i)

    tracemalloc.start()
    try:
        corpus = corpus_of(many())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # 8 bytes a word of codes and 20 a sentence, as growing arrays and then once more in the batch
    assert peak < 3 * (8 * corpus.batch.n_slots + 20 * len(corpus.batch))
