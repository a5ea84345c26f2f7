"""Distillation: a network learns the posterior of another model under rules, as soft targets.

    q_T = argmin_q KL(q ‖ p^{1/T})   s.t. q obeys the constraints          θ = argmax Σ_i w_i E_{q_T}[log p_θ(y | x_i)]

With temperature T = 1 the targets are the teacher's projected posterior; T > 1 softens them, T < 1 sharpens them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.errors import DataError
from trellis.models.model import rows_of
from trellis.neural.crf import NeuralCRF
from trellis.projection import project
from trellis.structures.structure import check_gamma


def distil(
    student: NeuralCRF,
    teacher: Any,
    X: Any,
    y: Any = None,
    *,
    constraints: Sequence[Constraint | Rule] = (),
    temperature: float = 1.0,
    sample_weight: Any = None,
    projection_tol: float = 1e-3,
) -> NeuralCRF:
    """Train a network on the posteriors of a teacher under constraints.

    Parameters
    ----------
    student : NeuralCRF
        Network to train. A copy is trained and returned.
    teacher : estimator
        Fitted model of label sequences, such as ``learner.model_``, over the same labels.
    X : list or Corpus
        Sentences, in a form that both models take.
    y : list or None, default=None
        Labels, None where unknown; known ones are kept.
    constraints : list of Constraint, default=()
        Constraints on the posteriors of sentences that are not fully labelled.
    temperature : float, default=1.0
        The teacher's scores are divided by it.
    sample_weight : list of float or None, default=None
        Weights of the sentences.
    projection_tol : float, default=0.001
        KKT residual at which the projection onto the constraints stops.

    Returns
    -------
    NeuralCRF
        The trained network.

    Examples
    --------
    >>> from trellis.models import HMM
    >>> from trellis.neural import BiLSTM, NeuralCRF
    >>> X, y = [["the", "dog", "barks"], ["dogs", "bark"]], [["D", "N", "V"], ["N", "V"]]
    >>> teacher = HMM(min_count=1, unknown=None).fit(X, y)
    >>> small = BiLSTM(word_size=8, char_size=0, hidden=8, layers=1, min_count=1, dropout=0.0)
    >>> distil(NeuralCRF(small, max_iter=60, learning_rate=0.05), teacher, X).predict([["the", "dog", "barks"]])
    [['D', 'N', 'V']]
    """
    temperature = check_gamma(temperature)
    made = type(student)(**{**student.get_params(deep=False), "labels": list(teacher.label_names_)})
    made.check_settings()
    batch = made.encode(X, y, sample_weight, fit=True)
    given = teacher.encode(X) if y is None else teacher.encode(X, y)
    if not np.array_equal(given.offsets, batch.offsets):
        raise DataError("teacher and network must be given the same sentences, but their lengths differ")
    total = None
    known = batch.complete
    for numbers in (np.flatnonzero(known), np.flatnonzero(~known)):
        if not len(numbers):
            continue
        own, theirs = batch.take(numbers), given.take(numbers)
        scores = made.in_place_of(own, teacher.scores(theirs))
        if numbers[0] in np.flatnonzero(known):
            q = scores.certain(own.labels, weights=own.weights)
        else:
            tempered = scores.temper(temperature).clamp(own.labels) if own.known else scores.temper(temperature)
            rows = rows_of(teacher, theirs, constraints)
            weights = own.weights
            q = project(tempered, rows, weights=weights, tolerance=projection_tol).posterior
        found = made.collect(own, q)
        total = found if total is None else total + found
    if total is None:
        raise DataError("there are no sentences to learn from")
    made.update(total)
    return made
