"""Training two directional alignment models tied by constraints: the same four verbs, one pair of models.

Each round projects both directions' posteriors of every pair, collects expected counts of both, and updates both;
Model 1 first, from the mean of the prior, then the HMM from Model 1's tables (Ganchev et al. 2010, sec. 5.5).
At γ = 1 the objective Σ V + log-prior is the bound of posterior regularization and does not fall within a
stage, as far as the projections converge (``tolerance``, ``max_evaluations``).
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from trellis.engine import Engine
from trellis.learn.history import History, Round
from trellis.learn.progress import Progress
from trellis.models.alignment import AlignmentConstraints, AlignmentModel
from trellis.structures.kernels.align_shard import Pairs


def train_alignment(
    model: AlignmentModel,
    pairs: Pairs,
    constraints: AlignmentConstraints,
    engine: Engine,
    *,
    model1_rounds: int = 4,
    hmm_rounds: int = 2,
    warm_start: bool = False,
    score: bool = False,
    progress: bool = False,
) -> History:
    """Train in place; the history has one entry a round, with its objective before the round's M-step.

    warm_start : keep the dual variables of the HMM's rounds (4 bytes a cell); γ = 0 has none to keep
    score : compute the log-prior, so that objectives of one stage can be compared
    """
    history = History()
    stages = [("model1", model1_rounds), ("hmm", hmm_rounds)]
    number = 0
    log_prior = 0.0
    with Progress("aligning", model1_rounds + hmm_rounds, progress) as bar:
        for kind, rounds in stages:
            if rounds == 0:
                continue
            model.kind = kind
            # Best alignments under tables without counts mean nothing, so Model 1 stays at γ = 1.
            held = constraints if kind == "hmm" else replace(constraints, gamma=1.0)
            kept = warm_start and kind == "hmm" and held.gamma > 0.0
            duals = np.zeros(len(pairs.cells), np.float32) if kept else None
            for _ in range(rounds):
                began = time.monotonic()
                statistics = model.collect(pairs, held, engine, warm=duals)
                objective = statistics.value + log_prior
                model.update(statistics, engine, score=score)
                log_prior = model.log_prior() if score else 0.0
                entry = Round(
                    number=number,
                    gamma=held.gamma,
                    objective=objective,
                    kkt_residual=statistics.residual / max(statistics.n_pairs, 1),
                    evaluations=statistics.evaluations,
                    seconds=time.monotonic() - began,
                )
                history.append(entry)
                number += 1
                bar.advance(number, f"{kind}  objective {objective:.6g}")
    return history
