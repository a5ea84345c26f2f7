"""Three pictures of a tagger that learns from generated sentences:

1. counting_constraint.png  a sentence before and after "at least one verb" (Ganchev et al. 2010, sec. 2)
2. posterior_sparsity.png  a word's label posteriors over 15 occurrences, before and after l1/linf regularization, with
   the dual variables between (Figure 11 of the same)
3. history.png  a run of posterior regularization, round by round
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trellis.constraints import compile_constraints, count, few_labels_per, word
from trellis.learn import UEM
from trellis.models import HMM
from trellis.projection import project
from trellis.report.effects import plot_projection, plot_sentence
from trellis.report.figure import save_figure
from trellis.report.pages import plot_history

LEXICON = {
    "DET": ["the", "a", "this", "every"],
    "NOUN": ["gardener", "ladder", "rose", "walk", "fence", "light", "water", "morning", "plant"],
    "VERB": ["climbs", "waters", "plant", "walk", "leans", "sees", "light"],
    "ADJ": ["old", "green", "light", "tall", "quiet"],
    "ADV": ["slowly", "early", "there"],
}
GRAMMAR = [
    ["DET", "NOUN", "VERB"],
    ["DET", "ADJ", "NOUN", "VERB", "ADV"],
    ["DET", "NOUN", "VERB", "DET", "NOUN"],
    ["DET", "NOUN", "VERB", "DET", "ADJ", "NOUN"],
    ["NOUN", "VERB", "ADV"],
]
GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"


def generated_text(n: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    tags = [GRAMMAR[i] for i in rng.integers(len(GRAMMAR), size=n)]
    return [[str(rng.choice(LEXICON[tag])) for tag in sentence] for sentence in tags], tags


def posterior_sparsity(folder: Path) -> None:
    text, tags = generated_text(120, seed=1)
    labels = list(LEXICON)
    model = HMM(labels, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    known = [y if i < 8 else None for i, y in enumerate(tags)]
    model = UEM(model, gamma=2.0, max_iter=2, tol=0.0).fit(text, known).model_
    batch = model.encode(text)
    parts = model.parts(batch)
    constraint = few_labels_per(word, strength=32.0).named("few labels a word")
    rows = compile_constraints([constraint], batch, model.label_names_, parts)
    scores = model.scores(batch)
    every_label = parts.grid()
    before = scores.infer().at(every_label)
    found = project(scores, rows, max_rounds=400)
    block, lam = found.rows.sparsity[0], found.duals.sparsity[0]
    column = batch.column("word")
    spread = {
        w: before[column.codes == i].max(axis=0).sum()
        for i, w in enumerate(column.vocabulary)
        if (column.codes == i).sum() >= 15
    }
    chosen = max(spread, key=lambda w: spread[w])
    slots = np.flatnonzero(column.codes == column.vocabulary.number(chosen))[:15]
    where = np.searchsorted(block.first, parts.label(slots, 0))
    after = found.posterior.at(every_label[slots])
    figure = plot_projection(
        before[slots], lam[where], after, labels, [str(i + 1) for i in range(len(slots))],
        title=f"15 occurrences of “{chosen}”: l1/linf regularization, σ = 32", rows_title="occurrence",
    )  # fmt: skip
    save_figure(figure, folder / "posterior_sparsity.png")


def counting_constraint(folder: Path) -> None:
    text, tags = generated_text(200, seed=2)
    labels = list(LEXICON)
    model = HMM(labels, min_count=1, unknown=None, emission_prior=1.5, transition_prior=1.5)
    model = UEM(model, max_iter=1, tol=0.0).fit(text, [y if i < 6 else None for i, y in enumerate(tags)]).model_
    sentence = [["the", "old", "green", "light"]]
    batch = model.encode(sentence)
    scores = model.scores(batch)
    rows = compile_constraints([(count("VERB") >= 1).named("a verb")], batch, model.label_names_, model.parts(batch))
    found = project(scores, rows)
    pull = float(found.duals_by_name()["a verb"][0]) if len(found.rows) else 0.0
    figure = plot_sentence(
        *(q.at(scores.parts.grid()) for q in (scores.infer(), found.posterior)), sentence[0], labels,
        title=f"“at least one VERB”, in expectation (λ = {pull:.2f})",
    )  # fmt: skip
    save_figure(figure, folder / "counting_constraint.png")


def history(folder: Path) -> None:
    text, _ = generated_text(300, seed=3)
    model = HMM(list(LEXICON), min_count=1, unknown=None, emission_prior=1.05, transition_prior=1.05)
    must = [(count("VERB") >= 1).named("a verb"), (count("NOUN") >= 1).named("a noun")]
    learner = UEM(model, must, max_iter=40, tol=0.0, random_state=0).fit(text)
    plot_history(learner.history_, folder / "history.png", title="PR: at least one verb and one noun a sentence")


def main(folder: Path = GALLERY) -> None:
    for draw in (counting_constraint, posterior_sparsity, history):
        draw(folder)


if __name__ == "__main__":
    main()
