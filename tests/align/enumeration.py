"""All alignments of one direction of one pair, listed: the twin of the compiled inference."""

from itertools import product

import numpy as np


def alignments(n_obs, n_places):
    """Every y: a place or −1 (null) for each observed word."""
    return list(product(range(-1, n_places), repeat=n_obs))


def hmm_log_prob(y, n_places, link, null, jump, first, p_null):
    """log p(observed words, y); link (J, I) and null (J,) are log translation probabilities."""
    middle, anchor, total = len(jump) // 2, None, 0.0
    for t, i in enumerate(y):
        if i < 0:
            total += np.log(p_null) + null[t]
            continue
        total += np.log1p(-p_null) + place_log_prob(anchor, i, n_places, jump, first, middle) + link[t, i]
        anchor = i
    return total + place_log_prob(anchor, n_places, n_places, jump, first, middle)


def place_log_prob(anchor, i, n_places, jump, first, middle):
    if anchor is None:
        return np.log(first[i] / first[: n_places + 1].sum())
    return np.log(jump[middle + i - anchor] / sum(jump[middle + k - anchor] for k in range(n_places + 1)))


def model1_log_prob(y, n_places, link, null, p_null):
    return sum(
        np.log(p_null) + null[t] if i < 0 else np.log((1 - p_null) / n_places) + link[t, i] for t, i in enumerate(y)
    )


def link_matrix(n_obs, n_places):
    """(n_alignments, n_obs · n_places) 1 where an alignment has a link."""
    ys = alignments(n_obs, n_places)
    rows = np.zeros((len(ys), n_obs * n_places))
    for r, y in enumerate(ys):
        for t, i in enumerate(y):
            if i >= 0:
                rows[r, t * n_places + i] = 1.0
    return rows
