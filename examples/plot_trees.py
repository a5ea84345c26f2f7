"""Arcs of a sentence under a model with valence that saw no tree, and under the nearest distribution that keeps most of
the given arcs (Ganchev et al. 2010, Figure 10): darker arcs are more probable.
"""

from __future__ import annotations

from pathlib import Path

from plot_tags import GALLERY, generated_text

from trellis.constraints import arcs, compile_constraints
from trellis.learn import UEM
from trellis.models import DMV
from trellis.projection import project
from trellis.report.arcs import plot_arcs


def main(folder: Path = GALLERY) -> None:
    text, tags = generated_text(300, seed=4)
    tagged = [list(zip(words, own, strict=True)) for words, own in zip(text, tags, strict=True)]
    learner = UEM(DMV(), start="uniform", max_iter=10, tol=0.0).fit(tagged)
    model = learner.model_
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
    plot_arcs([w for w, _ in sentence], rows, folder / "projected_arcs.png", given=given, heads=heads)


if __name__ == "__main__":
    main()
