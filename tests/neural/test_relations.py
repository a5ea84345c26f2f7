"""Networks of entities and relations: gradients, training, rules at prediction, files, the command line."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from tests.relate.sample import RULES, bare, sentences  # noqa: E402
from trellis import Relater  # noqa: E402
from trellis.cli import main  # noqa: E402
from trellis.constraints import parse_rules  # noqa: E402
from trellis.data.document import Document  # noqa: E402
from trellis.data.related import write_related  # noqa: E402
from trellis.errors import DataError, UnknownNameError  # noqa: E402
from trellis.models import load_model  # noqa: E402
from trellis.models.model import rows_of  # noqa: E402
from trellis.models.relation_model import RelationModel  # noqa: E402
from trellis.neural import BiLSTM, NeuralRelations  # noqa: E402
from trellis.neural.functions import distance, log_partition  # noqa: E402
from trellis.projection import project  # noqa: E402

FEW, MANY, GOLD = sentences(8), [bare(text) for text in sentences(8, 12)], sentences(8, 40)


def network(**settings):
    encoder = BiLSTM(word_size=6, char_size=4, hidden=6, layers=1, min_count=1, dropout=0.0)
    like = RelationModel(["Peop", "Org", "Loc"], ["Live_In", "Work_For"], min_count=1)
    return NeuralRelations(
        encoder, like, **{"size": 6, "dropout": 0.0, "max_iter": 8, "learning_rate": 0.03, **settings}
    )


def test_log_partitions_and_gradients_are_those_of_the_structure():
    model = network(max_iter=1).fit(FEW)
    batch = model.encode([*FEW, Document(("Nobody", "left"), spans=())])
    weights = np.linspace(0.5, 2.0, len(batch))
    [scores] = (one.detach().double().requires_grad_() for one in model.net_(batch))
    ours, plain = (
        model._log_partition(batch, [scores], weights),
        log_partition(model.form_of(batch), batch.offsets, [scores], weights),
    )
    torch.testing.assert_close(ours, plain)
    gradients = [torch.autograd.grad(one, scores)[0] for one in (ours, plain)]
    torch.testing.assert_close(*gradients)
    assert torch.autograd.gradcheck(lambda one: model._log_partition(batch, [one], weights), scores)


def test_the_gradient_of_the_distance_to_rules():
    model = network(max_iter=1).fit(FEW)
    batch = model.encode(MANY[:3])
    [scores] = (one.detach().double().requires_grad_() for one in model.net_(batch))
    rows = rows_of(model, batch, [rule for rule in parse_rules(RULES) if not hasattr(rule, "of")])
    form, weights = model.form_of(batch), np.array([1.0, 0.5, 2.0])
    assert distance(form, batch.offsets, [scores], None, rows, weights, 1e-11).item() > 1e-3
    assert torch.autograd.gradcheck(
        lambda one: distance(form, batch.offsets, [one], None, rows, weights, 1e-11), scores, eps=1e-4, atol=1e-5
    )


def test_a_batch_does_not_change_what_one_sentence_scores():
    model = network(max_iter=1).fit(FEW)
    together = model.infer(GOLD).marginals
    alone = [model.infer([text]).marginals for text in GOLD]
    for kind in (0, 1):
        np.testing.assert_allclose(together[kind], np.concatenate([one[kind] for one in alone]), atol=1e-6)
    assert model.predict([]) == []


@pytest.mark.parametrize("tied", [0, 3])
def test_targets_of_posteriors_under_rules_lower_the_loss(tied):
    model = network(max_iter=25)
    model.like.tied = tied
    batch = model.encode(MANY + FEW, fit=True)
    rows = rows_of(model, batch, [rule for rule in parse_rules(RULES) if not hasattr(rule, "of")])
    statistics = model.collect(batch, project(model.scores(batch), rows.canonical().local()).posterior)
    targets = statistics.joined()
    before = model.likelihood_loss(model.net_, targets).item()
    model.update(statistics)
    least = -float(np.sum(targets.rows * np.log(np.maximum(targets.rows, 1e-300))))  # the entropy of q
    after = model.likelihood_loss(model.net_, targets).item()
    assert least < after < least + 0.3 * (before - least)


def test_training_fits_the_labels_and_a_file_holds_the_model(tmp_path):
    model = network(max_iter=25).fit(FEW)
    objectives = [entry["objective"] for entry in model.history_.to_json()]
    assert objectives[-1] > objectives[0]
    found = model.predict(FEW)
    assert [types for types, _ in found] == [[span.label for span in text.spans] for text in FEW]
    model.save(tmp_path / "network.trellis")
    again = load_model(tmp_path / "network.trellis")
    assert again.predict(GOLD) == model.predict(GOLD)
    np.testing.assert_array_equal(again.infer(GOLD).marginals[1], model.infer(GOLD).marginals[1])
    with pytest.raises(DataError, match="need an encoder"):
        NeuralRelations(torch.nn.Linear(2, 2), RelationModel(min_count=1)).fit(FEW)
    with pytest.raises(DataError, match="like must be a RelationModel"):
        NeuralRelations("bilstm", like=3).fit(FEW)


@pytest.mark.parametrize("settings", [{}, {"method": "codl"}, {"method": "supervised"}, {"exact": True}])
def test_a_relater_over_an_encoder_keeps_to_the_rules(settings, small_encoder, tmp_path):
    relater = Relater(RULES, encoder="bilstm", min_count=1, max_iter=1, finder=False, **settings)
    relater.fit(FEW, unlabelled=MANY)
    assert isinstance(relater.model_, NeuralRelations)
    inference = relater.infer([bare(text) for text in GOLD])
    rows = rows_of(relater.model_, inference.batch, relater.constraints_).canonical().local()
    for text in relater.predict([bare(text) for text in GOLD]):
        for relation in text.relations:
            ends = text.spans[relation.first].label, text.spans[relation.second].label
            assert ends == ("Peop", {"Live_In": "Loc", "Work_For": "Org"}[relation.label])
        assert all(span.label == "Loc" for span in text.spans if text.tokens[span.first] in ("Ely", "Hull"))
    assert not rows.excess(rows.evaluate(inference.outputs)).any()
    relater.explain(GOLD)
    relater.save(tmp_path / "relations.trellis")
    assert load_model(tmp_path / "relations.trellis").predict(GOLD) == relater.predict(GOLD)


def test_same_seed_same_results(small_encoder):
    one, other = (
        Relater(RULES, encoder="bilstm", min_count=1, max_iter=1, finder=False).fit(FEW, unlabelled=MANY)
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.model_.weights_, other.model_.weights_)


def test_the_command_line_and_its_mistakes(small_encoder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text(RULES)
    write_related("few.jsonl", FEW)
    write_related("new.jsonl", [bare(text) for text in GOLD])

    def run(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return ended.value.code

    train = ("relate", "train", "rules.toml", "-l", "few.jsonl", "--save", "m", "-q")
    assert run(*train, "--encoder", "bilstm", "--min-count", "1") == 0
    assert run("relate", "predict", "new.jsonl", "-m", "m", "-o", "out.jsonl", "-q") == 0
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == len(GOLD)
    monkeypatch.undo()
    with pytest.raises(UnknownNameError, match="unknown encoder 'bert'"):
        Relater(RULES, encoder="bert").fit(FEW)
    with pytest.raises(DataError, match="leave out encoder, or l2"):
        Relater(RULES, encoder="bilstm", l2=1.0).fit(FEW)
