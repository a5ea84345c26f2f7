"""Draws the pictures of docs/gallery from text it generates: `make gallery`.

1. posterior_sparsity.png  a word's label posteriors over 15 occurrences, before and after l1/linf regularization, with
   the dual variables between (Figure 11 of Ganchev et al. 2010)
2. counting_constraint.png  a sentence before and after "at least one verb" (the running example of sec. 2)
3. history.png  a run of posterior regularization, round by round
4. projected_arcs.png  a sentence's arcs under the model with valence, and under the nearest distribution that keeps
   given arcs (Figure 10 of the same)
5. name_alignments.png  names in two alphabets that match and that do not, with what speaks for it and against it
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trellis.constraints import arcs, compile_constraints, count, few_labels_per, word
from trellis.learn import UEM
from trellis.models import DMV, HMM
from trellis.projection import project
from trellis.report.arcs import plot_arcs
from trellis.report.figure import save_figure
from trellis.report.history import plot_history
from trellis.report.matching import plot_matches
from trellis.report.posteriors import plot_projection, plot_sentence
from trellis.tasks.match import Matcher

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
GALLERY = Path(__file__).parents[1] / "docs" / "gallery"


def generated_text(n: int, seed: int) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    tags = [GRAMMAR[i] for i in rng.integers(len(GRAMMAR), size=n)]
    return [[str(rng.choice(LEXICON[tag])) for tag in sentence] for sentence in tags], tags


def posterior_sparsity() -> None:
    text, tags = generated_text(120, seed=1)
    labels = list(LEXICON)
    model = HMM(labels, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    known = [y if i < 8 else None for i, y in enumerate(tags)]
    UEM(model, gamma=2.0, max_iter=2, tol=0.0).fit(text, known)
    batch = model.encode(text)
    parts = model.parts(batch)
    constraint = few_labels_per(word, strength=32.0).named("few labels a word")
    rows = compile_constraints([constraint], batch, model.label_names_, parts)
    scores = model.scores(batch)
    every_label, _ = parts.grid()
    before = scores.infer().at(every_label)
    found = project(scores, rows, most_rounds=400)
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
        f"15 occurrences of “{chosen}”: l1/linf regularization, σ = 32", rows_title="occurrence",
    )  # fmt: skip
    save_figure(figure, GALLERY / "posterior_sparsity.png")


def counting_constraint() -> None:
    text, tags = generated_text(200, seed=2)
    labels = list(LEXICON)
    model = HMM(labels, min_count=1, unknown=None, emission_prior=1.5, transition_prior=1.5)
    UEM(model, max_iter=1, tol=0.0).fit(text, [y if i < 6 else None for i, y in enumerate(tags)])
    sentence = [["the", "old", "green", "light"]]
    batch = model.encode(sentence)
    scores = model.scores(batch)
    rows = compile_constraints([(count("VERB") >= 1).named("a verb")], batch, model.label_names_, model.parts(batch))
    found = project(scores, rows)
    pull = float(found.pulls()["a verb"][0]) if len(found.rows) else 0.0
    figure = plot_sentence(
        *(q.at(scores.parts.grid()[0]) for q in (scores.infer(), found.posterior)), sentence[0], labels,
        f"“at least one VERB”, in expectation (λ = {pull:.2f})",
    )  # fmt: skip
    save_figure(figure, GALLERY / "counting_constraint.png")


def history() -> None:
    text, _ = generated_text(300, seed=3)
    model = HMM(list(LEXICON), min_count=1, unknown=None, emission_prior=1.05, transition_prior=1.05)
    must = [(count("VERB") >= 1).named("a verb"), (count("NOUN") >= 1).named("a noun")]
    learner = UEM(model, must, max_iter=40, tol=0.0, random_state=0).fit(text)
    save_figure(
        plot_history(learner.history_, "PR: at least one verb and one noun a sentence"), GALLERY / "history.png"
    )


def projected_arcs() -> None:
    text, tags = generated_text(300, seed=4)
    tagged = [list(zip(words, own, strict=True)) for words, own in zip(text, tags, strict=True)]
    learner = UEM(DMV(), start="uniform", max_iter=10, tol=0.0).fit(tagged)
    model = getattr(learner, "model_", learner.model)
    sentence = [
        ("the", "DET"),
        ("gardener", "NOUN"),
        ("waters", "VERB"),
        ("the", "DET"),
        ("old", "ADJ"),
        ("rose", "NOUN"),
    ]
    heads, given = [2, 3, 0, 6, 6, 3], [(0, 3), (3, 2), (3, 6), (6, 5)]
    batch = model.encode([sentence])
    scores = model.scores(batch)
    rule = (arcs([given], share=True) >= 0.9).named("given arcs are kept")
    found = project(scores, compile_constraints([rule], batch, model.label_names_, model.parts(batch)))
    before, after = (model.probabilities(batch, [q])[0] for q in (scores.infer(), found.posterior))
    rows = {"unsupervised": before, "nearest with at least 0.9 of the dotted arcs": after}
    plot_arcs([w for w, _ in sentence], rows, GALLERY / "projected_arcs.png", given=given, heads=heads)


def name_alignments() -> None:
    lines = (Path(__file__).parent / "names" / "pairs.tsv").read_text(encoding="utf-8").splitlines()
    names = [(left, right) for left, right in (line.split("\t") for line in lines)]
    matcher = Matcher("names", n_jobs=1).fit(names)
    asked = [("manuela", "מנואלה"), ("kristina", "כריסטינה"), ("manuela", "מונאקו")]
    plot_matches(matcher.match(asked), GALLERY / "name_alignments.png")


if __name__ == "__main__":
    GALLERY.mkdir(parents=True, exist_ok=True)
    for draw in (posterior_sparsity, counting_constraint, history, projected_arcs, name_alignments):
        draw()
        print(f"drew {draw.__name__}")
