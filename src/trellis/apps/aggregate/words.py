"""What a network says of words, as evidence beside the votes.

    score(y_t) + WEIGHT · log max(p_θ(y_t | words), LEAST),        θ = argmax Σ_i E_{q_i}[log p_θ(y | words)]

with q the posterior of the votes. A text's evidence comes from a network that has not seen its votes: texts are
divided into FOLDS parts at random, and each part is labelled by a network trained on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from trellis.data.document import Document
from trellis.data.ragged import FloatArray
from trellis.engine.progress import Progress
from trellis.errors import DataError
from trellis.learn import UEM

WEIGHT, LEAST, FOLDS = 0.1, 1e-4, 3


def learn_words(
    learner: UEM, texts: Sequence[Document], new: Callable[[int], Any], verbose: bool = False
) -> tuple[Any, FloatArray]:
    """A network that learned the posteriors of all texts, and the evidence for each of them (n_tokens, n_labels).

    new : number of tokens -> the network before training
    """
    from trellis.neural import distil

    check_tokens(texts, "encoder")
    n, n_labels = len(texts), len(learner.model_.label_names_)

    def trained(numbers: Sequence[int]) -> Any:
        own = [texts[i] for i in numbers]
        return distil(new(sum(map(len, own))), learner.model_, own, constraints=learner.constraints)

    fold = np.random.default_rng(0).permutation(n) % FOLDS
    fold_of_token = np.repeat(fold, [len(text) for text in texts])
    found = np.zeros((len(fold_of_token), n_labels))
    with Progress("training the network", FOLDS + 1, verbose) as progress:
        for k in range(FOLDS):
            if n > 1 and np.any(fold_of_token == k):
                network = trained(np.flatnonzero(fold != k).tolist())
                found[fold_of_token == k] = evidence(network, [texts[i] for i in np.flatnonzero(fold == k).tolist()])
            progress.advance(k + 1)
        network = trained(range(n))
        progress.advance(FOLDS + 1)
    return network, found


def check_tokens(texts: Sequence[Document], option: str) -> None:
    """Refuse whole texts with one label each."""
    if all(len(text) <= 1 for text in texts):
        raise DataError(f"{option} needs the tokens of texts, but every text here is a single token: leave it out")


def evidence(network: Any, texts: Sequence[Document]) -> FloatArray:
    """What is added to the scores of labels, (n_tokens, n_labels)."""
    shares = network.predict_proba([list(text.tokens) for text in texts])
    none = np.zeros((0, len(network.label_names_)))
    found: FloatArray = WEIGHT * np.log(np.maximum(np.concatenate([none, *shares]), LEAST))
    return found
