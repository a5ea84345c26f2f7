"""What alignments of sentences may leave out, and similarities of words that the user brings (Chang 2011, table 5.4 and
5.6), against the alignments of two short sentences written out."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from trellis import Matcher, load_model
from trellis.errors import DataError
from trellis.models.matching import GraphPairs
from trellis.models.matching.similarity import WordSimilarity, read_similarity
from trellis.models.matching.wordnet import WordNet
from trellis.structures import GraphMatch

from .test_matcher import sentences

PAIR = [("planned roses beside grey walls", "the gray roses plan walled wall")]


def every_alignment(graph):
    """All one-to-one maps of words that are in the list of pairs."""
    allowed = {tuple(pair) for pair in graph.pairs.tolist()}
    n, m = graph.words
    for to in product(range(-1, m), repeat=n):
        used = [j for j in to if j >= 0]
        if len(used) == len(set(used)) and all(j < 0 or (i, j) in allowed for i, j in enumerate(to)):
            yield np.array(to)


@pytest.mark.parametrize("deletions", ["all", "words", "none"])
def test_the_best_alignment_is_that_of_all_written_out(deletions):
    model = GraphPairs(min_count=1, wordnet="none", keep_guess=False, deletions=deletions)
    batch = model.encode(PAIR, fit=True)
    outputs = list(every_alignment(batch.graphs[0]))
    mapped = np.array([np.count_nonzero(to >= 0) for to in outputs])
    rng = np.random.default_rng(0)
    for _ in range(20):
        model.weights_ = rng.standard_normal(len(model.weights_))
        scores = model.scores(batch)
        best = scores.argmax()
        worth = np.array([scores.score([to])[0] for to in outputs])
        assert best.score[0] == pytest.approx(worth.max())
        if deletions == "none":
            assert np.count_nonzero(best.outputs[0] >= 0) == mapped.max()
            assert np.all(mapped[worth > -np.inf] == mapped.max())
    names = " ".join(model.feature_names_)
    assert ("deleted edge" in names) == (deletions == "all")
    assert ("deleted word" in names or "deleted 0" in names) == (deletions != "none")


def test_as_many_words_are_mapped_as_can_be_together():
    """Against the largest matching found by trying all orders of the second sentence's words."""
    letters = ["roses", "rosed", "rosey", "grey", "gray", "greys", "wall", "walled"]
    rng = np.random.default_rng(0)
    for _ in range(30):
        pair = tuple(" ".join(rng.choice(letters, size=rng.integers(1, 5))) for _ in range(2))
        model = GraphPairs(min_count=1, wordnet="none", keep_guess=False, deletions="none")
        batch = model.encode([pair], fit=True)
        graph = batch.graphs[0]
        allowed = {tuple(p) for p in graph.pairs.tolist()}
        n, m = graph.words
        most = max(sum((i, j) in allowed for i, j in enumerate(order[:n])) for order in permutations(range(max(n, m))))
        [best] = GraphMatch(model.parts(batch), np.where(batch.closed, -np.inf, 0.0)).argmax().outputs
        assert np.count_nonzero(best >= 0) == most


def dice(one: str, other: str) -> float:
    return len(set(one) & set(other)) / len(set(one) | set(other)) if min(len(one), len(other)) > 3 else 0.0


def test_a_similarity_says_what_may_be_mapped(tmp_path):
    path = tmp_path / "similar.tsv"
    path.write_text("Car\tauto\t0.9\nbuy\tacquire\t0.5\n", encoding="utf-8")
    assert read_similarity(path) == {"Car": {"auto": 0.9}, "buy": {"acquire": 0.5}}
    table = WordSimilarity(read_similarity(path))
    assert table("auto", "car") == table("car", "auto") == 0.9
    assert table("car", "buy") == 0.0
    model = GraphPairs(min_count=1, wordnet="none", keep_guess=False, similarity=read_similarity(path))
    batch = model.encode([("They buy a car", "An auto they acquire walks"), ("walk", "walks")], fit=True)
    assert batch.graphs[0].pairs.tolist() == [[0, 2], [1, 3], [3, 1]]
    assert not len(batch.graphs[1].pairs)  # another ending is no longer a reason
    model.guess(batch)
    values = batch.features[model.parts(batch).flat.pair] @ model.guess_
    assert values.tolist() == pytest.approx([1.0, 0.5, 0.9])


PARENT = {"animal": "thing", "dog": "animal", "cat": "animal", "spaniel": "dog", "terrier": "dog", "thing": None,
          "idea": None}  # fmt: skip


def write_wordnet(folder):
    """A WordNet of the nouns of PARENT, one sense each."""
    header, names = "  1 a licence\n", list(PARENT)
    line = "{:08d} 05 n 01 {} 0 {} | .\n"
    pointers = {name: "000" if up is None else "001 @ {:08d} n 0000" for name, up in PARENT.items()}
    at, place = {}, len(header)
    for name in names:
        at[name] = place
        place += len(line.format(0, name, pointers[name].format(0)))
    rows = [line.format(at[name], name, pointers[name].format(at.get(PARENT[name], 0))) for name in names]
    (folder / "data.noun").write_text(header + "".join(rows))
    index = (
        f"{name} n 1 {int(up is not None)} {'@ ' * (up is not None)}1 1 {at[name]:08d}" for name, up in PARENT.items()
    )
    (folder / "index.noun").write_text(header + "\n".join(index) + "\n")
    (folder / "noun.exc").write_text("")
    for file in (f"{part}.{kind}" if part != "exc" else f"{kind}.exc" for part in ("index", "data", "exc")
                 for kind in ("verb", "adj", "adv")):  # fmt: skip
        (folder / file).write_text("" if file.endswith("exc") else header)


def test_wu_and_palmers_similarity_is_that_of_the_paths_written_out(tmp_path):
    write_wordnet(tmp_path)
    words = WordNet(str(tmp_path))

    def path(name):
        return [name, *(() if PARENT[name] is None else path(PARENT[name]))]

    for one, other in product(PARENT, repeat=2):
        ups = path(one), path(other)
        shared = [name for name in ups[0] if name in ups[1]]
        expected = 0.0
        if shared:
            depth = len(path(shared[0]))
            expected = 2 * depth / (ups[0].index(shared[0]) + ups[1].index(shared[0]) + 2 * depth)
        assert words.wu_palmer(one, other) == pytest.approx(expected)
    assert words.wu_palmer("spaniels", "terrier") == pytest.approx(0.75)
    assert words.wu_palmer("dog", "word") == 0.0
    batch = GraphPairs(min_count=1, similarity=words.wu_palmer).encode([("a dog", "the cat")], fit=True)
    assert batch.graphs[0].pairs.tolist() == [[1, 1]]


def test_a_function_is_a_similarity_and_must_be_given_again(tmp_path):
    X, y = sentences(30)
    usual = {"C": 1.0, "wordnet": "none", "method": "two-stage"}
    matcher = Matcher("sentences", similarity=dice, **usual).fit(X, y)
    matcher.save(tmp_path / "m.trellis")
    again = Matcher.load(tmp_path / "m.trellis", similarity=dice)
    np.testing.assert_array_equal(again.decision_function(X), matcher.decision_function(X))
    with pytest.raises(DataError, match="similarity of words .*dice"):
        load_model(tmp_path / "m.trellis").predict(X)


def test_a_table_is_saved_with_the_model(tmp_path):
    X, y = sentences(30)
    words = sorted({word for pair in X for side in pair for word in side.lower().split()})
    path = Path(tmp_path) / "similar.tsv"
    path.write_text("".join(f"{a}\t{b}\t{dice(a, b)}\n" for a in words for b in words), encoding="utf-8")
    matcher = Matcher("sentences", similarity=path, C=1.0, method="two-stage").fit(X, y)
    plain = Matcher("sentences", similarity=dice, C=1.0, method="two-stage").fit(X, y)
    np.testing.assert_allclose(matcher.decision_function(X), plain.decision_function(X))
    matcher.save(tmp_path / "m.trellis")
    again = load_model(tmp_path / "m.trellis")
    np.testing.assert_array_equal(again.decision_function(X), matcher.decision_function(X))


@pytest.mark.parametrize(
    "given, message",
    [(3, "must be a function"), ({"a": 1.0}, "maps words to words"), ({"a": {"b": 2.0}}, "from 0 to 1"),
     ({"a": {"b": float("nan")}}, "from 0 to 1"), ({"a": {"b": "x"}}, "from 0 to 1"),
     ({"a": {"b": None}}, "from 0 to 1")],
)  # fmt: skip
def test_what_is_no_similarity_is_refused(given, message):
    with pytest.raises(DataError, match=message):
        WordSimilarity(given)


@pytest.mark.parametrize(
    "text, message", [("", "no similarities"), ("a b\n", "word TAB"), ("a\tb\t7\n", "from 0 to 1")]
)
def test_lines_of_a_file_that_are_no_similarities_are_named(tmp_path, text, message):
    (tmp_path / "s.tsv").write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        read_similarity(tmp_path / "s.tsv")


def test_names_have_no_similarity_of_words():
    with pytest.raises(DataError, match="sentences only"):
        Matcher("names", similarity=dice).fit([("a", "b"), ("c", "d")])
