"""Rules reach an extractor as a path, as text, or as a list of constraints: each trains, copies and saves alike."""

import copy
import os
import pickle
from pathlib import Path

import pytest
from sklearn.base import clone

from trellis import Extractor
from trellis.constraints import count, each_label, label, word
from trellis.errors import ConstraintError, DataError, ModelFileError, UnknownNameError
from trellis.models import load_model

TEXT = """labels = ["DATE", "NAME"]
[[rule]]
name = "years"
if_word_matches = '^[12]\\d\\d\\d$'
then_label = "DATE"
[[rule]]
name = "one date"
count = "DATE"
at_most = 1
penalty = 2.0
"""
YEARS = word.matches(r"^[12]\d\d\d$").implies(label("DATE")).named("years")
CONSTRAINTS = [YEARS, (count("DATE") <= 1).penalty(2.0).named("one date")]
FEW, LABELS = ["Ann Lee 2001", "Cy Fox 1987"], [["NAME", "NAME", "DATE"]] * 2
NEW = ["Bo Day 1999", "1999 Ann 2001", "2024"]
FORMS = ["path", "string of a path", "text", "list", "tuple"]


@pytest.fixture
def rules(tmp_path, request):
    path = tmp_path / "rules.toml"
    path.write_text(TEXT)
    return {
        "path": path, "string of a path": str(path), "text": TEXT, "list": CONSTRAINTS, "tuple": tuple(CONSTRAINTS),
    }[request.param]  # fmt: skip


def fitted(rules, **settings):
    return Extractor(rules, max_iter=1, model_kind="hmm", **settings).fit(FEW, LABELS, unlabelled=NEW)


@pytest.mark.parametrize("rules", FORMS, indirect=True)
def test_every_form_of_the_same_rules_predicts_the_same(rules):
    made = fitted(rules)
    plain = fitted(TEXT)
    assert made.predict(NEW) == plain.predict(NEW)
    assert [c.describe() for c in made.constraints_] == [c.describe() for c in plain.constraints_]
    assert made.get_params()["rules"] is rules


@pytest.mark.parametrize("rules", FORMS, indirect=True)
def test_every_form_is_cloned_pickled_and_shown(rules):
    made = fitted(rules)
    for again in (clone(made), pickle.loads(pickle.dumps(clone(made))), copy.deepcopy(clone(made))):
        assert not hasattr(again, "ccm_")
        assert again.fit(FEW, LABELS, unlabelled=NEW).predict(NEW) == made.predict(NEW)
    assert pickle.loads(pickle.dumps(made)).predict(NEW) == made.predict(NEW)
    assert repr(made) == f"Extractor(rules={rules!r}, model_kind='hmm', max_iter=1)"


@pytest.mark.parametrize("rules", FORMS, indirect=True)
@pytest.mark.parametrize("kind", ["hmm", "crf"])
def test_every_form_is_saved_and_needs_no_other_file_when_loaded(rules, kind, tmp_path):
    made = fitted(rules, usual_fields=False).set_params(model_kind=kind).fit(FEW, LABELS, unlabelled=NEW)
    made.save(tmp_path / "model")
    (tmp_path / "rules.toml").unlink()
    loaded = load_model(tmp_path / "model")
    assert loaded.predict(NEW) == made.predict(NEW)
    assert [c.describe() for c in loaded.constraints_] == [c.describe() for c in made.constraints_]
    assert clone(loaded).fit(FEW, LABELS, unlabelled=NEW).predict(NEW) == made.predict(NEW)
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "model").read_bytes()


def test_the_file_is_read_when_it_learns_and_a_missing_one_is_named(tmp_path):
    path = tmp_path / "rules.toml"
    for form in (path, str(path), str(tmp_path / "misspelt")):
        with pytest.raises(DataError, match=rf"{form}: cannot be read: No such file"):
            Extractor(form).fit(FEW, LABELS)
    made = Extractor(path, model_kind="hmm", max_iter=1)
    path.write_text(TEXT)
    assert made.fit(FEW, LABELS).predict(NEW)[2] == ["DATE"]
    path.write_text(TEXT + "[[rule]]\ncolour = 1\n")
    with pytest.raises(DataError, match=rf"{path}, line 12"):
        made.fit(FEW, LABELS)


def test_a_string_that_names_a_file_is_a_path_whatever_it_ends_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.rules").write_text(TEXT)
    assert fitted("mine.rules").predict(NEW) == fitted(TEXT).predict(NEW)


@pytest.mark.parametrize("form", [Path, str, "from_file"])
def test_dictionaries_are_found_beside_the_rules(tmp_path, form):
    (tmp_path / "names.tsv").write_text("Zed\tDATE\n")
    path = tmp_path / "rules.toml"
    path.write_text('[[rule]]\nname = "names"\ndictionary = "names.tsv"\n')
    settings = {"model_kind": "hmm", "max_iter": 1}
    made = Extractor.from_file(path, **settings) if form == "from_file" else Extractor(form(path), **settings)
    made.fit(FEW, LABELS).save(tmp_path / "model")
    assert made.predict(["Zed"]) == [["DATE"]]
    os.remove(tmp_path / "names.tsv")
    os.remove(path)
    assert load_model(tmp_path / "model").predict(["Zed"]) == [["DATE"]]


def test_messages_of_a_loaded_extractor_still_name_the_rules_file(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text(TEXT)
    fitted(path).save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert [c.origin.path for c in loaded.constraints_[:2]] == [str(path)] * 2
    assert loaded.rules == TEXT


def test_labels_come_from_the_labelled_texts_or_from_the_setting():
    assert list(fitted(CONSTRAINTS).label_names_) == ["DATE", "NAME"]
    alone = Extractor(CONSTRAINTS, labels=["NAME", "DATE", "O"], model_kind="hmm", max_iter=1)
    alone.fit([], unlabelled=NEW)
    assert list(alone.label_names_) == ["NAME", "DATE", "O"]
    assert alone.predict(["2024"]) == [["DATE"]]
    with pytest.raises(DataError, match=r"Extractor\(rules, labels="):
        Extractor(CONSTRAINTS).fit([], unlabelled=NEW)
    with pytest.raises(UnknownNameError, match="DATE"):
        Extractor(CONSTRAINTS, labels=["NAME"]).fit([], unlabelled=NEW)
    with pytest.raises(DataError, match="already declares the labels"):
        Extractor(TEXT, labels=["NAME"]).fit(FEW, LABELS)
    with pytest.raises(DataError, match="labels must be a list of names"):
        Extractor(CONSTRAINTS, labels="NAME").fit(FEW, LABELS)


def test_no_constraint_at_all_is_a_model_without_rules(tmp_path):
    made = fitted([], usual_fields=False)
    assert made.constraints_ == []
    made.save(tmp_path / "model")
    assert load_model(tmp_path / "model").predict(NEW) == made.predict(NEW)


def test_a_rule_without_a_name_is_named_by_its_expression_and_can_be_left_out():
    made = Extractor([YEARS, count("DATE") <= 1], max_iter=1, model_kind="hmm", usual_fields=False)
    assert [c.name for c in made.fit(FEW, LABELS).constraints_] == ["years", "count('DATE') <= 1"]
    assert [c.name for c in made.fit(FEW, LABELS, without=["years"]).constraints_] == ["count('DATE') <= 1"]


@pytest.mark.parametrize("wrong", [None, 3, CONSTRAINTS[0]], ids=repr)
def test_other_things_are_refused(wrong):
    with pytest.raises(DataError, match="rules must be a string, a path or a list, got "):
        Extractor(wrong).fit(FEW, LABELS)


@pytest.mark.parametrize("wrong", [["count('DATE') <= 1"], [3]], ids=repr)
def test_a_list_of_other_things_is_refused(wrong):
    with pytest.raises(ConstraintError, match="a constraint is a comparison such as"):
        Extractor(wrong).fit(FEW, LABELS)


def test_a_constraint_that_is_no_text_is_refused_when_it_is_saved(tmp_path):
    made = fitted([each_label(lambda L: count(L) <= len(L)).named("by length")])
    with pytest.raises(ConstraintError, match="'by length' cannot be written to a file"):
        made.save(tmp_path / "model")


def test_a_model_file_cannot_name_a_rules_file(tmp_path):
    from trellis.data.archive import read_archive, write_archive

    secret = tmp_path / "secret.toml"
    secret.write_text(TEXT)
    fitted(TEXT).save(tmp_path / "model")
    archive = read_archive(tmp_path / "model")
    archive.header["learned"]["rules"] = str(secret)
    write_archive(tmp_path / "evil", archive.header, archive.arrays)
    with pytest.raises(ModelFileError, match="not valid TOML"):
        load_model(tmp_path / "evil")
