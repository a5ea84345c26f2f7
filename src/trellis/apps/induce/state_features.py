"""Induced states as features of a supervised tagger over few labelled sentences (Graça et al. 2009, sec. 5.2).

The tagger is a CRF whose tokens are described by the word, its last two and three letters, and the states that any
number of induced models give the token.
"""

from __future__ import annotations

from collections.abc import Sequence

from trellis.errors import DataError
from trellis.models import CRF


def token_features(words: Sequence[str], states: Sequence[Sequence[str]] = ()) -> list[list[str]]:
    """Names of the features of each token; ``states``: one sequence of states a model.

    >>> token_features(["dogs"], [["7"], ["2"]])
    [['word=dogs', 'suffix=gs', 'suffix=ogs', 'state0=7', 'state1=2']]
    """
    for number, given in enumerate(states):
        if len(given) != len(words):
            raise DataError(f"model {number} gives {len(given)} states for a sentence of {len(words)} words")
    return [
        [f"word={word}", f"suffix={word[-2:]}", f"suffix={word[-3:]}"]
        + [f"state{number}={given[t]}" for number, given in enumerate(states)]
        for t, word in enumerate(words)
    ]


def train_tagger(
    sentences: Sequence[Sequence[str]],
    tags: Sequence[Sequence[str]],
    states: Sequence[Sequence[Sequence[str]]] = (),
    *,
    l2: float = 0.1,
    n_jobs: int | None = None,
) -> CRF:
    """A CRF from labelled sentences; ``states[m][i]`` are the states that model m gives sentence i."""
    rows = [token_features(words, [model[i] for model in states]) for i, words in enumerate(sentences)]
    return CRF(l2=l2, n_jobs=n_jobs).fit(rows, [list(given) for given in tags])


def tag_with_states(
    tagger: CRF, sentences: Sequence[Sequence[str]], states: Sequence[Sequence[Sequence[str]]] = ()
) -> list[list[str]]:
    """Tags of new sentences, described as in training."""
    return tagger.predict([token_features(words, [model[i] for model in states]) for i, words in enumerate(sentences)])
