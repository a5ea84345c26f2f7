"""Malformed exports of annotation tools are refused with a message, whatever stands in the place of a value."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest

from trellis import DataError, TrellisError
from trellis.data.annotations import FORMATS, write_annotations
from trellis.data.brat import read_brat
from trellis.data.text_files import read_labelled

SPAN = {"start": 0, "end": 1, "label": "X"}
ODD = [
    None, True, 0, -1, 1.5, float("inf"), "", "x", [], [None], [1], [[0, 1]], [["a", "b", "c"]], {}, [{}],
    [{**SPAN, "start": None}], [{**SPAN, "label": None}], [{**SPAN, "label": ["X"]}], [{**SPAN, "label": ""}],
    [{**SPAN, "end": 10**30}], [{**SPAN, "start": float("inf")}], [{**SPAN, "start": 0.5}],
]  # fmt: skip
KEYS = ("text", "tokens", "spans", "label", "entities", "answer", "fields", "predicted", "offsets", "labels")
TEXTS = [
    {"text": "a b"}, {"tokens": ["a", "b"]}, {"text": "a b", "tokens": ["a", "b"], "offsets": [[0, 1], [2, 3]]},
    {"text": "a b", "tokens": [{"start": 0, "end": 1}, {"start": 2, "end": 3}], "spans": [SPAN]},
    {"text": "a b", "fields": [SPAN], "predicted": True},
]  # fmt: skip
TASK = {
    "data": {"text": "a 👍 b"},
    "annotations": [{"result": [{"value": {"start": 0, "end": 1, "labels": ["X"], "text": "a"}}]}],
    "predictions": [{"score": 0.5, "result": [{"score": 0.4, "value": {"start": 5, "end": 6, "labels": ["X"]}}]}],
}


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: " ".join(text))
def test_odd_json_lines_are_read_or_refused(text, tmp_path):
    for key in KEYS:
        for odd in ODD:
            (tmp_path / "x.jsonl").write_text(json.dumps({**text, key: odd}))
            try:
                read = read_labelled(tmp_path / "x.jsonl", predictions=True)
            except TrellisError:
                continue
            for form in FORMATS:
                with suppress(TrellisError):
                    write_annotations(tmp_path / "o.ann", read, form)


def variants(given):
    yield from ODD
    if isinstance(given, dict):
        for key in given:
            yield {name: value for name, value in given.items() if name != key}
            yield from ({**given, key: odd} for odd in variants(given[key]))
    if isinstance(given, list):
        for number, one in enumerate(given):
            yield from ([*given[:number], odd, *given[number + 1 :]] for odd in variants(one))


@pytest.mark.parametrize("left_out", ["", "annotations"])
def test_odd_tasks_of_label_studio_are_read_or_refused(left_out, tmp_path):
    for task in variants({key: value for key, value in TASK.items() if key != left_out}):
        (tmp_path / "x.json").write_text(json.dumps([task]))
        try:
            read_labelled(tmp_path / "x.json", predictions=True)
        except TrellisError:
            continue


@pytest.mark.parametrize("label", [None, "", [], True])
def test_a_span_has_a_label(label, tmp_path):
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": "a b", "label": [[0, 1, label]]}))
    with pytest.raises(DataError, match=r"x.jsonl, line 1: the span \[0, 1, .*\] is malformed"):
        read_labelled(tmp_path / "x.jsonl")


@pytest.mark.parametrize("places", [[(0, 1), (0, 9)], [(2, 3), (0, 1)], [(-1, 1), (2, 3)], [(1, 1), (2, 3)]])
def test_tokens_lie_in_their_text_one_after_the_other(places, tmp_path):
    tokens = [{"start": start, "end": end} for start, end in places]
    (tmp_path / "x.jsonl").write_text(json.dumps({"text": "a b", "tokens": tokens, "spans": [SPAN]}))
    with pytest.raises(DataError, match=r"x.jsonl, line 1: tokens do not lie in their text of 3 characters"):
        read_labelled(tmp_path / "x.jsonl")


@pytest.mark.parametrize(
    "line, message",
    [
        ("T1\tX 0 1;\ta", "expected an annotation of brat"), ("T1\t 0 1\ta", "expected an annotation of brat"),
        ("T1\tX", "expected an annotation of brat"), ("T1\tX 4 99\tb", r"the span \[4, 99, 'X'\] does not lie"),
    ],
)  # fmt: skip
def test_errors_of_brat_name_the_line(line, message, tmp_path):
    (tmp_path / "a.txt").write_text("a b c")
    (tmp_path / "a.ann").write_text(f"T9\tX 0 1\ta\n{line}\n")
    with pytest.raises(DataError, match=f"a.ann, line 2: {message}"):
        read_brat(tmp_path / "a.ann")


def test_relations_of_brat_that_are_doubled_or_lead_nowhere_are_left_out(tmp_path):
    (tmp_path / "a.txt").write_text("a b c d")
    (tmp_path / "a.ann").write_text(
        "R1\tR Arg1:T2 Arg2:T1\nT1\tX 0 1;4 5\ta c\nT2\tX 6 7\td\nR2\tR Arg1:T2 Arg2:T1\nR3\tR Arg1:T1 Arg2:T1\n"
        "R4\tR Arg1:T1 Arg2:T8\n"
    )
    found = read_brat(tmp_path / "a.ann")
    assert [(found.spans[r.first].text, found.spans[r.second].text) for r in found.relations] == [("d", "a")]
