"""Relater, whole: learning, prediction under rules, probabilities, explanations, one file."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from tests.engine.isolating import IsolatingEngine
from trellis import load_model, tune
from trellis.apps.parse.tagger import Tagger
from trellis.apps.relate import mentions as finding
from trellis.apps.relate.inference import ANY_NUMBER, rows_inside
from trellis.apps.relate.relater import Relater
from trellis.cli.app import main
from trellis.data.document import Document, Relation, Span
from trellis.data.related import read_related, write_related
from trellis.engine import SerialEngine
from trellis.errors import ConstraintError, DataError, UnknownNameError
from trellis.learn.labelling import searcher_of
from trellis.metrics.fields import score_relations
from trellis.models.model import rows_of
from trellis.models.relation_model import MOST_SUMMED
from trellis.projection import project
from trellis.projection.kernels import graph
from trellis.search.prices import penalised_value

from .sample import RULES, bare, sentences

FEW, MANY, GOLD = sentences(12), [bare(t) for t in sentences(24, 12)], sentences(24, 40)


def pairs(one, other):
    return zip(one, other, strict=True)


@pytest.fixture(scope="module")
def relater() -> Relater:
    return Relater(RULES, min_count=1, max_iter=2).fit(FEW, unlabelled=MANY)


def test_it_learns_and_finds_what_it_was_not_told(relater):
    scores = relater.relation_scores([*GOLD])
    assert scores.entities.total.f1 > 0.9
    assert scores.strict.total.f1 > 0.8
    assert len(relater.history_) == 2


@pytest.mark.parametrize("exact", [False, True])
def test_both_ways_of_the_e_step_learn(exact):
    made = Relater(RULES, min_count=1, max_iter=1, exact=exact, finder=False).fit(FEW, unlabelled=MANY)
    assert made.model_.tied == (7 if exact else 0)
    assert made.relation_scores(GOLD).strict.total.f1 > 0.8
    violated = made.history_[-1].violation
    assert max(violated.values()) < 0.02


def test_shares_of_the_corpus_are_held_though_they_are_small_numbers():
    many = RULES + '[[rule]]\nname = "many live"\nrelation_share = "Live_In"\nat_least = 0.1\nper = "corpus"\n'
    rules = many.replace("counts_like_labelled = true\nwithin = 0.2", 'relation_count = "Live_In"\nat_most = 9')
    made = Relater(rules, min_count=1, max_iter=1, finder=False).fit(FEW, unlabelled=MANY)
    assert made.history_[-1].violation["many live"] < 2e-4


def test_codl_labels_sentences_by_the_rules_and_as_often_as_labelled_ones():
    made = Relater(RULES, min_count=1, max_iter=1, method="codl", finder=False).fit(FEW, unlabelled=MANY)
    assert made.relation_scores(GOLD).strict.total.f1 > 0.8
    assert max(made.history_[-1].violation.values()) == 0.0
    batch = made._batch(MANY)
    model = made.model_.with_ties(ANY_NUMBER)
    search = searcher_of(model, batch, made.constraints_, SerialEngine())
    found = search.run(model.scores, np.zeros(len(made.constraints_)))
    assert np.all(search.coupling.excess(found.counts) <= 1e-9)
    assert np.all(
        penalised_value(model.scores(batch), rows_inside(model, batch, made.constraints_), found.labels) > -np.inf
    )


def test_predictions_obey_every_rule_and_are_the_best_that_do(relater):
    given = [bare(t) for t in GOLD[:6]]
    batch = relater._batch(given)
    model = relater.model_.with_ties(ANY_NUMBER)
    scores, rows = model.scores(batch), rows_inside(model, batch, relater.constraints_)
    best = np.asarray(relater.infer(given).outputs)
    value = penalised_value(scores, rows, best)
    assert np.all(value > -np.inf)
    sizes = [3] * batch.n_slots  # as many types as relations, None among them
    for i in range(len(batch)):
        low, high = int(batch.offsets[i]), int(batch.offsets[i + 1])
        if high - low > 4:
            continue
        for code in np.ndindex(*sizes[low:high]):
            other = best.copy()
            other[low:high] = code
            assert penalised_value(scores, rows, other)[i] <= value[i] + 1e-9


def test_probabilities_are_those_of_outputs_that_obey_the_rules(relater):
    found = relater.predict([bare(t) for t in GOLD])
    for text in found:
        for item in (*text.spans, *text.relations):
            assert 0.0 < item.probability <= 1.0 + 1e-9
    # a town of the list is a place for certain
    towns = [m for t in found for m in t.spans if m.text in ("Ely", "Hull")]
    assert towns
    assert all(m.label == "Loc" and m.probability == pytest.approx(1.0) for m in towns)


def test_explanations_name_the_rule_that_changed_something(relater):
    # "lives in" a firm: the words say Live_In, the rule of places, or the types, must give way
    text = Document(("Ann", "lives", "in", "Acme", "Ltd", "."), spans=(Span(None, 0, 1), Span(None, 3, 5)))
    odd = Document(("Hull", "works", "for", "Bolt", "Ltd", "."), spans=(Span(None, 0, 1), Span(None, 3, 5)))
    changes = relater.explain([text, odd])
    plain = relater.predict([text, odd], constrained=False)
    held = relater.predict([text, odd])
    differ = sum(a.label != b.label for p, h in pairs(plain, held) for a, b in pairs(p.spans, h.spans))
    assert sum(len(c.what) == 1 for c in changes) == differ
    known = {c.name for c in relater.constraints_}
    assert all(set(c.rules) <= known for c in changes)
    assert all(c.before != c.after for c in changes)
    if changes:
        assert any(c.rules for c in changes)


def test_an_explanation_tells_the_rule_and_what_follows_from_it():
    rules = RULES.replace('towns = ["Ely", "Hull"]', 'towns = ["Ann"]')
    made = Relater(rules, min_count=1, method="supervised", finder=False).fit(FEW)
    text = Document(("Ann", "lives", "in", "Ely", "."), spans=(Span(None, 0, 1), Span(None, 3, 4)))
    told = {c.what: (c.before, c.after, set(c.rules)) for c in made.explain([text])}
    assert told[0,] == ("Peop", "Loc", {"towns"})
    before, after, why = told[0, 1]
    assert (before, after) == ("Live_In", "None")
    assert why <= {"who lives and works is a person"}


def test_saved_and_loaded_it_predicts_the_same_bits(relater, tmp_path):
    relater.save(tmp_path / "m.trellis")
    again = load_model(tmp_path / "m.trellis")
    texts = [bare(t) for t in GOLD[:8]] + [Document(GOLD[0].tokens)]
    for one, other in zip(relater.predict(texts), again.predict(texts), strict=True):
        assert one == other
        assert [m.probability for m in one.spans] == [m.probability for m in other.spans]


def test_counts_of_few_labels_have_wide_bands_also_after_loading(tmp_path):
    rules = RULES.replace("within = 0.2", "")
    made = Relater(rules, method="supervised", min_count=1, finder=False).fit(FEW)
    n = {name: sum(r.label == name for t in FEW for r in t.relations) for name in ("Live_In", "Work_For")}
    assert min(n.values()) < 25  # else 20 % is the wider band
    made.save(tmp_path / "m.trellis")
    for relater in (made, load_model(tmp_path / "m.trellis")):
        like = next(c for c in relater.constraints_ if c.name == "as many as in labelled text")
        assert like.within == pytest.approx({name: max(0.2, 1 / np.sqrt(k)) for name, k in n.items()}, abs=1e-12)
        assert like.shares.keys() == n.keys()


def test_tags_are_learned_from_where_they_are_given_or_a_tagger_gives_them(tmp_path):
    tags = {"lives": "VERB", "works": "VERB", "hired": "VERB", "saw": "VERB", "in": "ADP", "for": "ADP", "of": "ADP"}

    def tagged(text):
        named = (tags.get(w, "PUNCT" if w == "." else "PROPN") for w in text.tokens)
        return replace(text, columns={"tag": tuple(named)})

    tagger = Tagger(min_count=1).fit([Document(t.tokens, tagged(t).columns["tag"]) for t in FEW])
    settings = {"min_count": 1, "method": "supervised"}
    given = Relater(RULES, **settings).fit([tagged(t) for t in FEW])
    made = Relater(RULES, tagger=tagger, **settings).fit(FEW)
    assert made.model_._features[0].names == given.model_._features[0].names
    made.save(tmp_path / "m.trellis")
    again = load_model(tmp_path / "m.trellis")
    texts = [bare(t) for t in GOLD[:6]] + [Document(GOLD[0].tokens)]
    assert made.predict(texts) == again.predict(texts) == given.predict([tagged(t) for t in texts])
    with pytest.raises(DataError, match="sentence 0 has no tags, but the model was trained with tags"):
        given.predict(texts)
    with pytest.raises(DataError, match="5 tokens but 2 entries in column 'tag'"):
        Document(GOLD[0].tokens[:5], columns={"tag": ("A", "B")})


def test_engines_give_the_same_bits():
    settings = {"min_count": 1, "max_iter": 1, "finder": False}
    one, other = (Relater(RULES, engine=e, **settings).fit(FEW, unlabelled=MANY[:6]) for e in (None, IsolatingEngine()))
    for name, weights in one.model_.parameters().items():
        np.testing.assert_array_equal(weights, other.model_.parameters()[name])


def test_mentions_are_found_where_none_are_given(relater):
    found = relater.predict([Document(t.tokens) for t in GOLD])
    spans = [{(m.first, m.last) for m in t.spans} for t in found]
    gold = [{(m.first, m.last) for m in t.spans} for t in GOLD]
    right = sum(len(a & b) for a, b in pairs(spans, gold))
    assert 2 * right / (sum(map(len, spans)) + sum(map(len, gold))) > 0.8
    with pytest.raises(DataError, match="trained without a finder"):
        Relater(RULES, min_count=1, max_iter=1, finder=False, method="supervised").fit(FEW).predict([Document(("a",))])


def test_sentences_are_given_as_json_has_them_and_as_strings(relater, tmp_path):
    write_related(tmp_path / "few.jsonl", FEW)
    few = [json.loads(line) for line in (tmp_path / "few.jsonl").read_text().splitlines()]
    settings = {"min_count": 1, "max_iter": 1}
    one = Relater(RULES, **settings).fit(few, unlabelled=[" ".join(t.tokens) for t in MANY[:4]])
    other = Relater(RULES, **settings).fit(FEW, unlabelled=[Document(t.tokens) for t in MANY[:4]])
    assert one.predict(["Ann lives in Ely ."]) == other.predict([Document(("Ann", "lives", "in", "Ely", "."))])
    with pytest.raises(DataError, match="put it in brackets"):
        relater.predict("Ann lives in Ely .")
    with pytest.raises(DataError, match="expected the key 'tokens'") as told:
        relater.predict(["Ann", {"words": []}])
    assert told.value.__notes__ == ["(sentence 1)"]


def test_lines_without_columns_are_raw_text(tmp_path):
    (tmp_path / "raw.txt").write_text("Ann lives in Ely.\n\nBob saw Hull.\n")
    found = list(read_related(tmp_path / "raw.txt"))
    assert [t.tokens for t in found] == [("Ann", "lives", "in", "Ely", "."), (), ("Bob", "saw", "Hull", ".")]
    assert [(t.line, t.spans) for t in found] == [(1, None), (2, None), (3, None)]


def test_mistakes_are_told():
    with pytest.raises(DataError, match="all types and relations known"):
        Relater(RULES).fit(MANY)
    with pytest.raises(UnknownNameError, match="Liv_In"):
        Relater(RULES.replace('"Live_In", "Work_For"]\nthen', '"Liv_In"]\nthen')).fit(FEW)
    with pytest.raises(UnknownNameError, match="Town"):
        Relater(RULES).fit([Document(("a", "b"), spans=(Span("Town", 0, 1), Span("Loc", 1, 2)), relations=()), *FEW])
    with pytest.raises(UnknownNameError, match="method"):
        Relater(RULES, method="emm").fit(FEW)
    for rule in ('if_word = "May"\nthen_label = "DATE"', 'dictionary = {May = "Peop"}'):  # rules of an extractor
        with pytest.raises(ConstraintError, match="refers to labels of tokens"):
            Relater(f"{RULES}\n[[rule]]\n{rule}", finder=False).fit(FEW)
    with pytest.raises(DataError, match="two relations hold between the same mentions"):
        Relater(RULES).fit([replace(FEW[0], relations=(Relation(0, 1, "x"), Relation(0, 1, "y")))])


def test_scores_count_tokens_types_and_relations():
    gold = [Document(("a", "b"), spans=(Span("P", 0, 1), Span("L", 1, 2)), relations=(Relation(0, 1, "in"),))]
    wrong = [Document(("a", "b"), spans=(Span("P", 0, 1), Span("O", 1, 2)), relations=(Relation(0, 1, "in"),))]
    scores = score_relations(gold, wrong)
    assert scores.entities.total.f1 == 0.5
    assert scores.relations.mean_f1 == 1.0
    assert scores.strict.total.f1 == 0.0
    with pytest.raises(DataError, match="not the same in both"):
        score_relations(gold, [Document(("a", "c"), spans=(), relations=())])


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_files_bring_back_what_was_written(name, tmp_path):
    write_related(tmp_path / name, GOLD)
    assert list(read_related(tmp_path / name)) == GOLD


@pytest.mark.parametrize(
    "line, message",
    [
        ('{"token": ["a"]}', "expected the key 'tokens'"),
        ('{"tokens": ["a"], "mentions": [{"start": 0, "end": 2}]}', "covers tokens 0..1, but there are 1"),
        ('{"tokens": ["a"], "relations": []}', "no 'mentions'"),
        ('{"tokens": ["a", "b"], "mentions": [{"start": 0}]}', "needs the key 'end'"),
        ('{"tokens": ["a"], "mentions": [{"start": "0", "end": 1}]}', "must be a whole number"),
        ("{", "not JSON"),
    ],
)
def test_odd_lines_are_told_with_their_place(line, message, tmp_path):
    path = tmp_path / "odd.jsonl"
    path.write_text('{"tokens": ["a"], "mentions": []}\n' + line + "\n")
    with pytest.raises(DataError, match=message) as caught:
        list(read_related(path))
    assert caught.value.line == 2


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in arguments])
    return int(end.value.code or 0)


def test_the_command_line_does_the_same(tmp_path, capsys):
    rules, few, many, gold = (tmp_path / n for n in ("rules.toml", "few.jsonl", "many.jsonl", "gold.jsonl"))
    rules.write_text(RULES)
    write_related(few, FEW)
    write_related(many, MANY[:8])
    write_related(gold, GOLD[:8])
    model, out = tmp_path / "m.trellis", tmp_path / "out.jsonl"
    common = ["--min-count", 1, "--rounds", 1, "--quiet", "--threads", 1]
    assert run("relate", "train", rules, "-l", few, "-u", many, "--save", model, *common) == 0
    assert run("relate", "predict", gold, "-m", model, "-o", out, "--quiet") == 0
    assert run("evaluate", "--relations", gold, out) == 0
    assert "mean F1" in capsys.readouterr().out
    record = json.loads(out.read_text().splitlines()[0])
    assert {"start", "end", "type", "probability"} == set(record["mentions"][0])
    assert run("relate", "explain", gold, "-m", model) == 0
    assert "one lives in a place: " in capsys.readouterr().out


def test_counts_like_labelled_need_labelled_data(relater):
    batch = relater._batch(GOLD[:1])
    from trellis.constraints import counts_like

    with pytest.raises(ConstraintError, match="takes its counts from labelled data"):
        rows_of(relater.model_, batch, [counts_like(None)])


def test_a_sentence_in_which_nothing_is_mentioned_has_an_answer(relater, monkeypatch):
    monkeypatch.setattr("trellis.apps.relate.mentions.MentionFinder.find", lambda finder, texts: list(texts))
    [found] = relater.predict([Document(("and", "then", ","))])
    assert (found.spans, found.relations) == ((), ())


@pytest.mark.parametrize("method", ["pr", "codl", "supervised"])
def test_a_gamma_that_the_method_does_not_read_is_refused(method):
    with pytest.raises(DataError, match="gamma requires method 'uem'"):
        Relater(RULES, method=method, gamma=0.3).fit(FEW)


def long_sentence(n: int) -> Document:
    """So many mentions, in sentences that are written in one line."""
    tokens: list[str] = []
    mentions: list[Span] = []
    for text in itertools.cycle(GOLD):
        mentions += [Span(None, m.first + len(tokens), m.last + len(tokens)) for m in text.spans or ()]
        tokens += text.tokens
        if len(mentions) >= n:
            return Document(tuple(tokens), spans=tuple(mentions[:n]))
    raise AssertionError


def test_a_sentence_with_too_many_mentions_is_read_in_runs_and_the_others_as_ever(relater, monkeypatch):
    monkeypatch.setattr(finding, "MOST_MENTIONS", 5)
    long, short = long_sentence(12), GOLD[:3]
    with pytest.warns(UserWarning, match=r"sentence 1 has 12 mentions.*groups of 5 mentions"):
        found = relater.predict([short[0], long, *short[1:]])
    assert [found[0], *found[2:]] == relater.predict(short)
    assert [(m.first, m.last) for m in found[1].spans] == [(m.first, m.last) for m in long.spans]
    assert all(m.label is not None and 0.0 < m.probability <= 1.0 for m in found[1].spans)
    assert found[1].relations
    assert all(r.first // 5 == r.second // 5 for r in found[1].relations)
    runs = [replace(long, spans=long.spans[a : a + 5]) for a in (0, 5, 10)]
    alone = [
        (5 * i + r.first, 5 * i + r.second, r.label)
        for i, text in enumerate(relater.predict(runs))
        for r in text.relations
    ]
    assert [(r.first, r.second, r.label) for r in found[1].relations] == alone


def test_an_explanation_of_too_many_mentions_is_that_of_its_runs(monkeypatch):
    rules = RULES.replace('towns = ["Ely", "Hull"]', 'towns = ["Ann"]')
    made = Relater(rules, min_count=1, method="supervised", finder=False).fit(FEW)
    words = ("Ann", "lives", "in", "Ely", ".") * 3
    mentions = tuple(Span(None, 5 * i + a, 5 * i + a + 1) for i in range(3) for a in (0, 3))
    short, long = Document(words[:5], spans=mentions[:2]), Document(words, spans=mentions)
    runs = [replace(long, spans=mentions[a : a + 4]) for a in (0, 4)]
    alone = made.explain(runs)
    assert {c.sentence for c in alone} == {0, 1}
    monkeypatch.setattr(finding, "MOST_MENTIONS", 4)
    with pytest.warns(UserWarning, match="sentence 1 has 6 mentions"):
        found = made.explain([short, long])
    assert [c for c in found if c.sentence == 0] == made.explain([short])
    moved = [replace(c, sentence=1, what=tuple(4 * c.sentence + place for place in c.what)) for c in alone]
    assert [c for c in found if c.sentence == 1] == moved


def test_rules_of_sentences_with_and_without_factors_are_projected_as_the_generic_solver_does(relater):
    """Sentences of up to 7 mentions have factors; the rules of longer ones hold in expectation."""
    model = relater.model_.with_ties(MOST_SUMMED)
    batch = relater._batch([GOLD[0], long_sentence(12), GOLD[1]])
    scores, rows = model.scores(batch), rows_inside(model, batch, relater.constraints_)
    assert graph.takes(rows)
    parts = np.arange(scores.parts.n_parts)
    fast, slow = (project(scores, rows, tolerance=1e-5, max_evaluations=1000, generic=g) for g in (False, True))
    assert fast.kkt_residual <= 1e-5
    np.testing.assert_allclose(fast.posterior.at(parts), slow.posterior.at(parts), atol=1e-3)
    assert fast.value == pytest.approx(slow.value, abs=1e-4)


def test_gamma_is_chosen_by_halves_of_the_labelled_sentences():
    """As Samdani et al. 2012 choose it: written out, with F1 of relations."""
    asked = Relater(RULES, min_count=1, max_iter=1, finder=False)
    found = tune(asked, FEW, gammas=[0.1, 1.0], halves=True, unlabelled=MANY, random_state=3)
    order = np.random.default_rng(3).permutation(len(FEW))
    halves = [[FEW[i] for i in sorted(half)] for half in (order[:6], order[6:])]
    for trial in found.trials:
        own = [
            Relater(RULES, min_count=1, max_iter=1, finder=False, gamma=trial.gamma).fit(teach, unlabelled=MANY)
            for teach in halves
        ]
        scores = [made.score(judge) for made, judge in zip(own, halves[::-1], strict=True)]
        assert trial.score == pytest.approx(np.mean(scores))


def test_the_command_chooses_gamma(tmp_path, capsys):
    (tmp_path / "rules.toml").write_text(RULES)
    write_related(tmp_path / "few.jsonl", FEW)
    write_related(tmp_path / "gold.jsonl", GOLD[:8])
    name = [str(tmp_path / file) for file in ("rules.toml", "few.jsonl", "gold.jsonl", "model")]
    with pytest.raises(SystemExit) as done:
        main(["relate", "train", name[0], "-l", name[1], "--tune", name[2], "--save", name[3], "--no-finder", "-q",
              "--min-count", "1", "--rounds", "1"])  # fmt: skip
    assert not done.value.code
    told = capsys.readouterr().err
    assert f"chosen on {name[2]} (0.1: " in told
    assert Relater.load(name[3]).gamma == float(told.split()[1].rstrip(","))


def test_unlabelled_sentences_weigh_as_told():
    settings = {"min_count": 1, "max_iter": 1, "finder": False}
    twice = Relater(RULES, **settings).fit(FEW, unlabelled=[*MANY, *MANY])
    heavy = Relater(RULES, unlabelled_weight=2.0, **settings).fit(FEW, unlabelled=MANY)
    labels = Relater(RULES, method="supervised", **settings).fit(FEW)
    none = Relater(RULES, unlabelled_weight=0.0, **settings).fit(FEW, unlabelled=MANY)
    assert [t.spans for t in none.predict(GOLD)] == [t.spans for t in labels.predict(GOLD)]
    for one, other in pairs(heavy.predict(GOLD), twice.predict(GOLD)):
        assert [s.label for s in one.spans] == [s.label for s in other.spans]
        for a, b in pairs(one.spans, other.spans):
            assert a.probability == pytest.approx(b.probability, abs=0.02)
