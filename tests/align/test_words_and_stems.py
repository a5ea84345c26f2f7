"""Words and stems together: the geometric mean of two tables, against dictionaries and enumeration."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from trellis.apps.align.aligner import Aligner
from trellis.engine import SerialEngine
from trellis.errors import DataError
from trellis.metrics.alignment import GoldLinks
from trellis.models import load_model
from trellis.models.alignment import AlignmentModel
from trellis.models.alignment.lexicon import Lexicon

pytestmark = pytest.mark.slow

PAIRS = [
    ("the houses", "les maisons"),
    ("the house", "la maison"),
    ("old housing", "vieux maisonnees"),
    ("the old house 7", "la vieille maison 7"),
    ("houses", "maisons"),
    ("oldest", "vieux"),
]
NEW = [("the housed ones 9", "la maisonnette 9"), ("oldie house", "vieillard les"), ("ones", ""), ("house", "maison")]


def trained(rounds=2, kind="model1", **settings):
    model = AlignmentModel(kind, prefix=3, **settings)
    batch = model.encode(PAIRS, fit=True)
    for _ in range(rounds):
        model.update(model.collect(batch, model.scores(batch).infer(weights=batch.weights)))
    return model, batch


def stem(word):
    return word if any(c.isdigit() for c in word) else word[:3]


class Probabilities:
    """The tables of a lexicon as dictionaries of names."""

    def __init__(self, lexicon, described):
        t, table = lexicon.tables, lexicon.table
        source, target = lexicon.source.names, lexicon.target.names
        self.described = described
        self.source, self.target = ({name: k for k, name in enumerate(names)} for names in (source, target))
        self.pair = {
            (source[e], target[f]): t.pair[k].astype(float)
            for k, (e, f) in enumerate(zip(table.sources(), table.row_targets, strict=True))
        }
        self.t = t

    def link(self, left, right, direction):
        e, f = self.described(left), self.described(right)
        if (e, f) in self.pair:
            return self.pair[e, f][direction]
        place = self.source.get(e, -1) if direction == 0 else self.target.get(f, -1)
        kind = "alike" if left == right else "unseen"
        return float(getattr(self.t, f"{kind}{direction + 1}")[place])

    def null(self, word, direction):
        if direction == 0:
            return float(self.t.null1[self.target.get(self.described(word), -1)])
        return float(self.t.null2[self.source.get(self.described(word), -1)])


@pytest.mark.parametrize("pruned", [False, True])
def test_a_link_has_the_geometric_mean_of_both_tables(pruned):
    """Of words in the tables, of new words with a known stem and without one, and of words spelled alike."""
    model, _ = trained(4)
    if pruned:
        model = model.trimmed()
    both = Probabilities(model.words_, str), Probabilities(model.stems_, stem)
    for pair in [*PAIRS, *NEW]:
        left, right = (side.split() for side in pair)
        scores = model.scores(model.encode([pair]))
        for direction, member in enumerate(scores.members):
            if not left or not right:
                continue
            own = np.sqrt(np.prod([[[b.link(e, f, direction) for f in right] for e in left] for b in both], axis=0))
            nulls = np.sqrt(np.prod([[b.null(w, direction) for w in (right, left)[direction]] for b in both], axis=0))
            found = twin_posterior(own, nulls, model.p_null, direction, model.diagonal_scale)
            np.testing.assert_allclose(member.infer().link.reshape(own.shape), found, rtol=1e-5, atol=1e-9)


def twin_posterior(link, null, p_null, direction, reach):
    """Posteriors of Model 1 by listing all alignments."""
    link = link if direction == 0 else link.T  # places first
    n_places, n_obs = link.shape
    near = np.exp(
        -np.abs(np.arange(n_places)[:, None] + 0.5 - (np.arange(n_obs) + 0.5) * n_places / n_obs) / reach
    )  # fmt: skip
    weight = (1 - p_null) * near / near.sum(axis=0) * link
    scores, outputs = [], list(product(range(-1, n_places), repeat=n_obs))
    for y in outputs:
        scores.append(sum(np.log(null[t] * p_null if i < 0 else weight[i, t]) for t, i in enumerate(y)))
    share, found = np.exp(np.array(scores) - logsumexp(scores)), np.zeros(link.shape)
    for y, p in zip(outputs, share, strict=True):
        for t, i in enumerate(y):
            if i >= 0:
                found[i, t] += p
    return found if direction == 0 else found.T


def test_stems_count_what_their_words_count():
    model, batch = trained()
    found = model.collect(batch, model.scores(batch).infer(weights=batch.weights)).total()
    names = [
        [(lexicon.source.names[e], lexicon.target.names[f]) for e, f in rows(lexicon)] for lexicon in model.lexicons
    ]
    summed = Counter()
    for (e, f), counts in zip(names[0], found.pairs[0], strict=True):
        summed[stem(e), stem(f)] += counts.astype(float)
    assert set(summed) == set(names[1])
    for pair, counts in zip(names[1], found.pairs[1], strict=True):
        np.testing.assert_allclose(counts, summed[pair], atol=1e-5)


def rows(lexicon):
    return zip(lexicon.table.sources().tolist(), lexicon.table.row_targets.tolist(), strict=True)


def test_without_stems_or_without_words_there_is_one_table():
    alone = AlignmentModel(prefix=3, whole_words=False)
    alone.encode(PAIRS, fit=True)
    assert alone.stems_ is None
    assert "hou" in alone.words_.source.names
    words = AlignmentModel(prefix=None)
    words.encode(PAIRS, fit=True)
    assert words.stems_ is None
    assert "houses" in words.words_.source.names


def test_two_lexicons_that_are_the_same_are_one():
    """Words no longer than a stem have the same tables twice, so their geometric mean is the table."""
    one, both = (Aligner(n_jobs=1, prefix=prefix).fit(PAIRS) for prefix in (None, 20))
    for a, b in zip(one.posteriors(PAIRS), both.posteriors(PAIRS), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(one.history_.objective, both.history_.objective, rtol=1e-5)


@pytest.mark.parametrize("prefix", [3, None])
def test_words_come_in_after_stems(prefix):
    """One round of stems alone, one in which words are counted, then both; pairs ruled out as stems are not built."""
    model = AlignmentModel("model1", prefix=prefix)
    batch = model.encode_fit(PAIRS, stem_rounds=1)[1]
    assert len(model.words_.table) == 0 or prefix is None
    alone = AlignmentModel("model1", prefix=prefix, whole_words=False)
    same = alone.encode(PAIRS, fit=True)
    for rounds in range(2):
        q, other = (m.scores(b).infer(weights=b.weights) for m, b in ((model, batch), (alone, same)))
        np.testing.assert_allclose(q.members[0].link, other.members[0].link, rtol=1e-6)
        model.update(model.collect(batch, q))
        alone.update(alone.collect(same, other))
        assert model.log_prior() == pytest.approx(alone.log_prior()) or rounds == 1
        model.prune()
        alone.prune()
        model.go_on(batch)
    if prefix is None:
        return
    q, other = (m.scores(b).infer(weights=b.weights) for m, b in ((model, batch), (alone, same)))
    assert np.abs(q.members[0].link - other.members[0].link).max() > 0.01
    source, target = model.words_.source.names, model.words_.target.names
    stems = {(model.stems_.source.names[e], model.stems_.target.names[f]) for e, f in rows(model.stems_)}
    assert len(model.words_.table)
    assert {(stem(source[e]), stem(target[f])) for e, f in rows(model.words_)} <= stems
    met = {(e, f) for left, right in PAIRS for e in left.split() for f in right.split()}
    opposite = [len({f for e, f in met if e == word}) for word in source]
    assert model.words_.opposite[0].tolist() == opposite


def test_a_stem_helps_a_word_that_training_did_not_have():
    aligner = Aligner(n_jobs=1, prefix=3).fit([*PAIRS * 5, ("a cat sees", "un chat voit")] * 3)
    assert (0, 0) in set(aligner.align([("housed cat", "maisonnette chat")])[0])


def test_files_must_have_the_stems_that_their_words_have(tmp_path):
    model, _ = trained()
    names, arrays = model.learned()
    for wrong in (
        {name: value for name, value in arrays.items() if name != "stem_pair"},
        {**arrays, "stem_null1": arrays["stem_null1"][:-1]},
        {**arrays, "stem_row_targets": arrays["stem_row_targets"] + 1000},
    ):
        with pytest.raises(DataError):
            AlignmentModel(prefix=3).restore(names, wrong)
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").stems_ is not None


def test_words_and_stems_together_lose_little_where_stems_confuse():
    """German-like compounds share their beginning; Slavic-like forms of one word are many."""
    rng = np.random.default_rng(0)
    compounds = {f"c{k}": f"vorderbau{chr(97 + k)}" for k in range(12)}
    forms = {f"w{k}": [f"stamm{chr(97 + k)}"[1:] + e for e in ("a", "e", "i", "o", "u", "y")] for k in range(12)}
    pairs, gold = [], []
    for _ in range(150):
        source = [str(w) for w in rng.choice([*compounds, *forms], 5, replace=False)]
        order = rng.permutation(5)
        target = [compounds[w] if w in compounds else str(rng.choice(forms[w])) for w in (source[i] for i in order)]
        pairs.append((source, target))
        links = frozenset((int(i), j) for j, i in enumerate(order))
        gold.append(GoldLinks(links, links))
    scores = {
        name: Aligner(n_jobs=1, **settings).fit(pairs).score(pairs, gold)
        for name, settings in {"both": {}, "stems": {"whole_words": False}, "words": {"prefix": None}}.items()
    }
    assert scores["both"] > scores["stems"] + 0.05, scores
    assert scores["words"] - scores["both"] < (scores["words"] - scores["stems"]) / 5, scores


@pytest.mark.parametrize("variational", [True, False])
def test_a_table_that_is_not_read_before_its_first_m_step_is_written_over_its_counts(variational):
    model, batch = trained(variational=variational)
    counts = model.collect(batch, model.scores(batch).infer(weights=batch.weights)).total()
    nulls, tables = (counts.null1, counts.null2), []
    for is_read in (True, False):
        words = Lexicon.build(batch, model.words_.source, model.words_.target, {}, 1.0)
        words.reset(0.15, variational, is_read=is_read)
        assert len(words.tables.pair) == (len(words.table) if is_read else 0)
        given = counts.pairs[0].copy()
        words.update(given, nulls, 0.15, variational, SerialEngine(), False)
        assert (words.tables.pair is given) != is_read
        tables.append(words.tables)
    for one, other in zip(*tables, strict=True):
        np.testing.assert_array_equal(one, other)
