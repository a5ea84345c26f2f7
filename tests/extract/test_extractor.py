"""The extractor on generated text: what rules add, files that hold everything, explanations."""

from dataclasses import replace

import numpy as np
import pytest

from tests.extract.samples import advertisements, citations, rules_of, twelve_fields
from trellis.apps.extract.explain import explain, trained_utility, utility
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.word_classes import WordClasses, word_class
from trellis.data.text_files import Extracted, json_record, read_labelled, write_extracted
from trellis.data.tokens import tokenise
from trellis.errors import DataError, InfeasibleError, ModelFileError, UnknownNameError

pytestmark = pytest.mark.slow


def HMMExtractor(rules, **settings):
    """What is no matter of the model is tried on the one that is learned fastest, under the rules of the file alone."""
    return Extractor(rules, **{"model_kind": "hmm", "method": "codl", "usual_fields": False, **settings})


def bare(texts):
    return [tokenise(t.text) for t in texts]


@pytest.fixture(scope="module")
def cited():
    few, many, test = citations(5, 1), bare(citations(150, 2)), citations(60, 3)
    return few, many, test


@pytest.fixture(scope="module")
def trained(cited):
    # a plain HMM, of which rules change most
    return HMMExtractor(rules_of("citations"), back_off=0.0).fit(cited[0], unlabelled=cited[1])


def test_generated_texts_are_tokenised_as_their_pieces_are():
    for text in citations(30, 5) + advertisements(30, 5):
        assert tokenise(text.text).tokens == text.tokens
        assert None not in text.labels


@pytest.mark.parametrize("domain, make", [("citations", citations), ("ads", advertisements)])
def test_rules_beat_hard_em_and_supervision_in_both_domains(domain, make):
    gains = []
    for seed in (1, 11, 21):
        few, many, test = make(5, seed), bare(make(150, seed + 1)), make(60, seed + 2)
        made = {
            m: HMMExtractor(rules_of(domain), method=m).fit(few, unlabelled=many)
            for m in ("codl", "hard-em", "supervised")
        }
        codl = made["codl"].score(test)
        gains.append([codl - made["hard-em"].score(test, constrained=False), codl - made["supervised"].score(test)])
    assert np.all(np.mean(gains, axis=0) > 0.03)


def test_the_thirteen_rules_of_advertisements_teach_their_twelve_fields():
    """Chang 2011, tables 3.2 and 3.3: every rule is tested by the texts, and rules help most without labels."""
    few, many, test = twelve_fields(5, 1), bare(twelve_fields(150, 2)), twelve_fields(60, 3)
    rules = rules_of("ads", "twelve")
    made = {m: HMMExtractor(rules, method=m).fit(few, unlabelled=many) for m in ("codl", "supervised")}
    assert len(made["codl"].label_names_) == 12
    reports = {r.name: r for r in explain(made["codl"], test)}
    assert len(reports) == 13
    assert min(r.tested for r in reports.values()) >= 2
    assert made["codl"].score(test) > made["codl"].score(test, constrained=False)
    assert made["codl"].score(test) > made["supervised"].score(test) + 0.03
    assert made["supervised"].score(test) > made["supervised"].score(test, constrained=False) + 0.03


def test_outputs_under_the_rules_violate_them_less_than_the_model_alone(cited, trained):
    reports = explain(trained, cited[2])
    assert len(reports) == 12
    assert sum(r.by_output for r in reports) < 0.5 * sum(r.by_model for r in reports)
    once = next(r for r in reports if r.name == "AppearsOnce")
    assert once.sentence.startswith("For every label L")
    assert once.penalty > 3
    assert all(r.by_gold is not None and r.by_gold <= r.tested for r in reports if r.name != "Punctuation")
    assert all(r.by_gold is None for r in explain(trained, bare(cited[2])))


def test_utility_of_no_rules_is_the_model_alone_and_of_all_is_the_extractor(cited, trained):
    table = {row.name: row for row in utility(trained, cited[2])}
    assert table["(none)"].alone == trained.score(cited[2], constrained=False)
    assert table["(all)"].without == trained.score(cited[2])
    assert set(table) == {"(none)", "(all)", *(c.name for c in trained.constraints_)}
    assert table["Punctuation"].alone > table["(none)"].alone
    assert trained.score(cited[2]) == table["(all)"].alone  # measuring changed nothing
    with pytest.raises(DataError, match="give labelled texts"):
        utility(trained, bare(cited[2]))


def test_trained_utility_trains_without_the_rule(cited):
    rules = '[[rule]]\nname = "a"\nif_token = "first"\nthen_label = "AUTHOR"\nstrength = "learned"\n'
    made = HMMExtractor(rules, max_iter=1).fit(cited[0], unlabelled=cited[1][:30])
    table = trained_utility(made, cited[0], cited[1][:30], cited[2])
    alone = HMMExtractor(rules, max_iter=1).fit(cited[0], unlabelled=cited[1][:30], without=["a"]).score(cited[2])
    assert table[0].alone == alone
    assert table[1].without == alone


def test_a_loaded_extractor_predicts_the_same_bits(cited, trained, tmp_path):
    path = tmp_path / "fields.trellis"
    trained.save(path)
    again = Extractor.load(path)
    assert again.rules == trained.rules
    assert again.ccm_.penalties_ == trained.ccm_.penalties_
    assert np.array_equal(again.ccm_.model_.emission_, trained.ccm_.model_.emission_)
    one, two = trained.infer(cited[2]), again.infer(cited[2])
    assert np.array_equal(one.outputs, two.outputs)
    assert np.array_equal(one.values, two.values)
    again.save(tmp_path / "again.trellis")
    assert (tmp_path / "again.trellis").read_bytes() == path.read_bytes()


def test_a_text_should_have_the_fields_that_all_labelled_ones_have(cited, tmp_path):
    few, many, test = cited
    made = HMMExtractor(rules_of("citations"), usual_fields=True, method="pr").fit(few, unlabelled=many)
    every = {label for label in made.label_names_ if all(label in t.labels for t in few)}
    assert "TITLE" in every < {*made.label_names_}
    assert made.usual_ == pytest.approx(dict.fromkeys(every, np.log((len(few) + 0.5) / 0.5)))
    assert [c.name for c in made.constraints_[12:]] == [f"has {label}" for label in made.usual_]
    # the same model without these prices leaves more texts without a title
    alone = Extractor.load(saved(made, tmp_path))
    assert alone.predict(test) == made.predict(test)
    alone.ccm_.constraints = alone.constraints_[:12]
    titles = [sum("TITLE" in labels for labels in one.predict(test)) for one in (made, alone)]
    assert titles[0] >= titles[1]
    fewer = HMMExtractor(rules_of("citations"), usual_fields=True, max_iter=1)
    fewer.fit(few, unlabelled=many[:5], without=["has TITLE"])
    assert "has TITLE" not in [c.name for c in fewer.constraints_]


def saved(extractor, folder):
    extractor.save(folder / "m.trellis")
    return folder / "m.trellis"


def test_a_model_file_needs_no_dictionary_beside_it(tmp_path, cited):
    (tmp_path / "words.tsv").write_text("Journal\tJOURNAL\nProceedings\tBOOKTITLE\n")
    rules = rules_of("citations") + '\n[[rule]]\nname = "words"\ndictionary = "words.tsv"\n'
    (tmp_path / "rules.toml").write_text(rules)
    made = Extractor.from_file(tmp_path / "rules.toml", max_iter=1, model_kind="hmm").fit(
        cited[0], unlabelled=cited[1][:20]
    )
    made.save(tmp_path / "m.trellis")
    (tmp_path / "words.tsv").unlink()
    again = Extractor.load(tmp_path / "m.trellis")
    assert again.predict(cited[2]) == made.predict(cited[2])
    again.save(tmp_path / "n.trellis")
    assert Extractor.load(tmp_path / "n.trellis").predict(cited[2]) == made.predict(cited[2])


def test_other_files_are_not_taken_for_extractors(tmp_path, trained):
    trained.ccm_.model_.save(tmp_path / "hmm.trellis")
    with pytest.raises(ModelFileError, match="holds 'HMM', not 'Extractor'"):
        Extractor.load(tmp_path / "hmm.trellis")


@pytest.mark.parametrize("method", ["pr", "uem", "em"])
def test_projections_run_on_the_same_rules(method, cited):
    made = HMMExtractor(rules_of("citations"), method=method, max_iter=2).fit(cited[0], unlabelled=cited[1][:60])
    assert made.score(cited[2]) > 0.6
    assert (len(made.ccm_.duals_) == 12) == (method != "em")


def test_hard_rules_that_contradict_each_other_still_give_an_output():
    few = citations(5, 1)
    made = HMMExtractor(rules_of("citations"), hard=True, max_iter=1).fit(
        few, unlabelled=[tokenise('"Quoted first," 1990.')]
    )
    assert len(made.predict([tokenise('"Quoted first," 1990.')])[0]) == 7


def test_texts_without_tokens_have_no_fields(trained):
    texts = [tokenise(""), tokenise("A. Lee, 1990."), tokenise("   ")]
    assert [len(labels) for labels in trained.predict(texts)] == [0, 6, 0]
    assert trained.predict([]) == []


def test_without_labels_rules_that_are_learned_say_what_to_do():
    with pytest.raises(
        DataError, match="no labelled text: the penalties of .* cannot be learned. Label some texts, set penalty ="
    ):
        HMMExtractor(rules_of("citations")).fit([], unlabelled=bare(citations(5, 1)))


def test_a_rule_that_forbids_everything_is_named_with_the_text_it_forbids():
    rules = 'labels = ["A", "B"]\n[[rule]]\nname = "never"\ncount = ["A", "B"]\nat_most = 0\n'
    with pytest.raises(InfeasibleError, match="'never'"):
        HMMExtractor(rules).fit([], unlabelled=[tokenise("one two")])
    soft = HMMExtractor(rules.replace("at_most = 0", "at_most = 0\npenalty = 3"), max_iter=1).fit(
        [], unlabelled=[tokenise("one two")]
    )
    assert len(soft.predict([tokenise("one")])[0]) == 1


def test_a_label_outside_the_rules_is_named_with_its_line(tmp_path):
    (tmp_path / "few.tsv").write_text("Ann\tAUTHR\n")
    few = read_labelled(tmp_path / "few.tsv")
    with pytest.raises(UnknownNameError, match="few.tsv, line 1: unknown label 'AUTHR'; did you mean 'AUTHOR'"):
        HMMExtractor(rules_of("citations")).fit(few)


def test_json_lines_come_back_as_labelled_texts(tmp_path, cited):
    results = [Extracted(t, list(t.labels)) for t in cited[2][:10]]
    write_extracted(tmp_path / "out.jsonl", results, "json")
    again = read_labelled(tmp_path / "out.jsonl", predictions=True)
    assert [t.labels for t in again] == [t.labels for t in cited[2][:10]]
    assert [t.offsets for t in again] == [t.offsets for t in cited[2][:10]]
    record = json_record(results[0].text, results[0].labels)
    assert all(record["text"][f["start"] : f["end"]] == f["text"] for f in record["fields"])


def test_fields_by_characters_label_the_tokens_inside_them(tmp_path):
    (tmp_path / "a.jsonl").write_text(
        '{"text": "Ann Lee, 1999", "fields": [{"label": "DATE", "start": 9, "end": 13}]}\n'
    )
    assert read_labelled(tmp_path / "a.jsonl")[0].labels == (None, None, None, "DATE")


def test_rare_words_are_seen_as_their_form():
    classes = WordClasses.learn([["the", "the", "Lee", "1990", "1990"]], min_count=2)
    assert [classes.seen_as(w) for w in ("the", "Lee", "Xu", "1990", "x9")] == [
        "the", "<Xx>", "<Xx>", "<year>", "<with digits>",
    ]  # fmt: skip
    assert word_class("É") == "<initial>"


def test_partly_labelled_texts_are_learned_from(cited):
    holes = [replace(t, labels=tuple(None if i % 3 else y for i, y in enumerate(t.labels))) for t in citations(20, 30)]
    made = HMMExtractor(rules_of("citations"), max_iter=3)
    with_holes = made.fit(cited[0], unlabelled=holes).score(cited[2])
    without = HMMExtractor(rules_of("citations"), max_iter=3).fit(cited[0], unlabelled=bare(holes)).score(cited[2])
    assert with_holes > without
