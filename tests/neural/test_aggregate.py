"""The network over words of an aggregator, and end models of ``trellis aggregate``."""

from __future__ import annotations

import json

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis import Aggregator  # noqa: E402
from trellis.apps.aggregate import words  # noqa: E402
from trellis.apps.extract.extractor import Extractor  # noqa: E402
from trellis.cli import main  # noqa: E402
from trellis.errors import DataError, UnknownNameError  # noqa: E402
from trellis.models import load_model  # noqa: E402

DRUGS = ("aspirin", "ibuprofen", "codeine", "morphine")


def votes(n=12):
    """Texts in which a dictionary misses some drugs, and a cue finds the others."""
    made = []
    for i in range(n):
        drug = DRUGS[i % 4]
        tokens = ["take", drug, "daily"] if i % 2 else ["we", "gave", drug]
        at = tokens.index(drug)
        known = [[at, at + 1, "DRUG"]] if i % 4 < 3 else []
        made.append({"tokens": tokens, "spans": {"list": known, "cue": [[1, 2, "*"]] if i % 2 else []}})
    return made


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


def test_a_network_is_evidence_beside_the_votes(small_encoder, tmp_path):
    plain, texts = Aggregator().fit(votes()), votes()
    with_words = Aggregator(encoder="bilstm").fit(texts)
    assert plain.network_ is None
    assert type(with_words.network_).__name__ == "NeuralCRF"
    assert not np.allclose(np.concatenate(plain.probabilities_), np.concatenate(with_words.probabilities_))
    for probabilities in (with_words.probabilities_, with_words.predict_proba(texts)):
        np.testing.assert_allclose(np.concatenate(probabilities).sum(axis=1), 1.0)
    with_words.save(tmp_path / "votes.trellis")
    again = load_model(tmp_path / "votes.trellis")
    for one, other in zip(again.predict_proba(texts), with_words.predict_proba(texts), strict=True):
        np.testing.assert_array_equal(one, other)
    assert again.score(texts, with_words.predict(texts)) == 1.0
    assert again.predict([]) == []
    np.testing.assert_array_equal(
        np.concatenate(Aggregator(encoder="bilstm").fit(texts).probabilities_),
        np.concatenate(with_words.probabilities_),
    )


def test_evidence_for_a_text_comes_from_a_network_that_has_not_seen_its_votes(small_encoder, monkeypatch):
    import trellis.neural

    def trained(network, teacher, texts, **settings):
        return {text.tokens for text in texts}

    def asked(seen, texts):
        assert seen.isdisjoint(text.tokens for text in texts)
        return np.ones((sum(map(len, texts)), 3))

    monkeypatch.setattr(trellis.neural, "distil", trained, raising=False)
    monkeypatch.setattr(words, "evidence", asked)
    texts = [{"tokens": [f"w{i}", "x"], "spans": {"f": [[0, 1, "A"]]}} for i in range(7)]
    plain = Aggregator().fit(texts)
    network, found = words.learn_words(plain.learner_, plain._seen(texts), lambda n: None)
    assert len(network) == 7
    assert found.shape == (14, 3)
    assert np.all(found == 1.0)


@pytest.mark.parametrize("n", [1, 2])
def test_one_text_and_two(n, small_encoder):
    assert Aggregator(encoder="bilstm").fit(votes(n)).labels_ == Aggregator().fit(votes(n)).labels_


def test_an_end_model_labels_texts_without_votes(small_encoder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in votes()))
    (tmp_path / "new.txt").write_text("take codeine daily\n")
    for more in ((), ("--encoder", "bilstm")):
        assert run("aggregate", "votes.jsonl", "-o", "out.jsonl", "--end-model", "end", "-q", "--force", *more) == 0
        members = getattr(Extractor.load("end").ccm_.model_, "members", [None])
        assert len(members) == (2 if more else 1)
        assert run("extract", "predict", "--model", "end", "new.txt", "-o", "new.tsv", "-q", "--force") == 0
        labels = [line.split("\t")[1] for line in (tmp_path / "new.tsv").read_text().split("\n") if line]
        assert [label.removeprefix("B-") for label in labels] == ["O", "DRUG", "O"]
    assert run("aggregate", "votes.jsonl", "-m", "end", "--end-model", "other", "-o", "o.jsonl", "-q") == 2
    assert "--end-model" in capsys.readouterr().err


def test_whole_texts_and_unknown_encoders_are_refused(tmp_path, monkeypatch, capsys):
    whole = [{"text": "late and broken", "votes": {"f": "BAD"}}, {"text": "a quick one", "votes": {"f": "GOOD"}}]
    with pytest.raises(DataError, match="every text here is a single token"):
        Aggregator(encoder="bilstm").fit(whole)
    with pytest.raises(UnknownNameError, match="unknown encoder"):
        Aggregator(encoder="nothing").fit(votes())
    monkeypatch.chdir(tmp_path)
    (tmp_path / "votes.jsonl").write_text("".join(json.dumps(one) + "\n" for one in whole))
    assert run("aggregate", "votes.jsonl", "-o", "out.jsonl", "--end-model", "end", "-q") == 2
    assert "single token" in capsys.readouterr().err
