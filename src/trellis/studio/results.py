"""What models have learned: scores over all of them, fields and changes of one, and its mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trellis.data.document import excerpt
from trellis.studio.models import Predicted, changes_of, models_in, predictions_of
from trellis.studio.project import Project

EXAMPLES = 20


def results(folder: Path, model: str | None) -> dict[str, Any]:
    """Scores of every model by labelled texts, and what a model predicts otherwise than the one before."""
    models = models_in(folder)
    curve = [
        {"name": one["name"], "labelled": one.get("labelled", 0), "rules": str(one.get("rules", "")).count("[[rule]]"),
         "scores": {kind: _score(found) for kind, found in one.get("scores", {}).items()}}
        for one in models
    ]  # fmt: skip
    own = next((one for one in models if one["name"] == model), None)
    if own is None or model is None:
        return {"curve": curve, "fields": {}, "changes": {}, "before": None}
    before = [one["name"] for one in models if int(one["name"]) < int(model)]
    now = predictions_of(folder, model)
    changes = changes_of(predictions_of(folder, before[-1]) if before else {}, now)
    fields = {kind: found.get("fields", {}) for kind, found in own.get("scores", {}).items()}
    return {"curve": curve, "fields": fields, "changes": changes, "before": before[-1] if before else None}


def _score(found: Mapping[str, Any]) -> dict[str, Any]:
    total = found.get("total", {})
    return {"accuracy": found.get("accuracy"), "f1": total.get("f1"), "precision": total.get("precision"),
            "recall": total.get("recall")}  # fmt: skip


def confused(project: Project, predicted: Mapping[str, Predicted]) -> list[dict[str, Any]]:
    """Confusions of labels with predictions, each with some places."""
    from dataclasses import replace

    from trellis.apps.extract.field_errors import confusions

    keys = [
        key for key, one in project.labels.items() if key in predicted and len(predicted[key].labels) == len(one.labels)
    ]
    gold = [project.labels[key].text for key in keys]
    found = [replace(text, labels=predicted[key].labels) for key, text in zip(keys, gold, strict=True)]
    return [
        {"gold": one.gold, "found": one.found, "tokens": one.tokens, "places": len(one.mistakes), "examples": [
            {"id": keys[m.text], "excerpt": excerpt(gold[m.text], m.first, m.last)} for m in one.mistakes[:EXAMPLES]
        ]}
        for one in confusions(gold, found)
    ]  # fmt: skip
