"""Relations of arcs that are known: a softmax over relations, with hashed features of the two ends of an arc.

    p(relation | h, c) ∝ exp Σ_f w[f, relation]

A feature is a row of weights, one for each relation, so that one look-up serves them all.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from trellis.models.kernels.arc_features import M0, M1, M2, M3, M4, M5, M6, M7, M8, U, bin_of, load_sentence, place

N_FEATURES = 22


@njit(nogil=True, cache=True)
def label_features(h, c, word, tag, shift, out):
    """Places of the features of an arc between places of a sentence; −1 is the root."""
    b = bin_of(h, c)
    d, far = U(0 if b < 7 else (1 if b < 14 else 2)) * M5, U(b + 3) * M6
    hw, hp, cw, cp = word[h + 1] * M1, tag[h + 1] * M2, word[c + 1] * M3, tag[c + 1] * M4
    before, after = tag[c] * M7, tag[c + 2] * M8
    w_before, w_after = word[c] * M7, word[c + 2] * M8
    h_before = tag[h] * M0 if h >= 0 else U(0)
    h_after = tag[h + 2] * M0
    out[0] = place(cp + d, U(301), shift)
    out[1] = place(cw + cp + d, U(302), shift)
    out[2] = place(hp + cp + d, U(303), shift)
    out[3] = place(hp + cp + far, U(304), shift)
    out[4] = place(hw + hp + cp + d, U(305), shift)
    out[5] = place(hp + cw + cp + d, U(306), shift)
    out[6] = place(hw + cw + d, U(307), shift)
    out[7] = place(cp + before + d, U(308), shift)
    out[8] = place(cp + after + d, U(309), shift)
    out[9] = place(hp + cp + before + after + d, U(310), shift)
    out[10] = place(cp + w_before + d, U(311), shift)
    out[11] = place(cp + w_after + d, U(312), shift)
    out[12] = place(hp + cp + w_before + d, U(313), shift)
    out[13] = place(hp + cp + h_before + d, U(314), shift)
    out[14] = place(hp + cp + h_after + d, U(315), shift)
    out[15] = place(cp + before + tag[max(c - 1, 0)] * M1 + d, U(316), shift)
    out[16] = place(cp + before + word[max(c - 1, 0)] * M1 + d, U(317), shift)
    out[17] = place(hp + cp + before + word[max(c - 1, 0)] * M1 + d, U(318), shift)
    out[18] = place(cw + far, U(319), shift)
    out[19] = place(hw + cp + w_before + d, U(320), shift)
    out[20] = place(hw + cp + far, U(321), shift)
    out[21] = place(cw + before + after, U(322), shift)


@njit(nogil=True, cache=True)
def add_scores(places, weights, score):
    """score[relation] = Σ of the rows."""
    for k in range(len(score)):
        score[k] = 0.0
    for i in range(N_FEATURES):
        row = weights[places[i]]
        for k in range(len(score)):
            score[k] += row[k]


@njit(nogil=True, cache=True)
def label_pass(text, order, heads, labels, weights, squares, rate):
    """One pass of AdaGrad steps on the likelihood; labels : (n_words,), −1 where unknown.

    Returns the log-likelihood of the labels, each at the weights that met it.
    """
    likelihood = 0.0
    places, score = np.empty(N_FEATURES, np.int64), np.zeros(weights.shape[1])
    for s in order:
        lo, n = text.offsets[s], text.offsets[s + 1] - text.offsets[s]
        word, tag = np.empty(n + 2, np.uint64), np.empty(n + 2, np.uint64)
        load_sentence(text, s, word, tag)
        for c in range(n):
            if labels[lo + c] < 0 or heads[lo + c] < 0:
                continue
            label_features(heads[lo + c] - 1, c, word, tag, text.shift, places)
            add_scores(places, weights, score)
            top, total = score.max(), 0.0
            for k in range(len(score)):
                score[k] = math.exp(score[k] - top)
                total += score[k]
            likelihood += math.log(max(score[labels[lo + c]] / total, 1e-300))
            for k in range(len(score)):
                score[k] = score[k] / total - (1.0 if k == labels[lo + c] else 0.0)
            for i in range(N_FEATURES):
                row, square = weights[places[i]], squares[places[i]]
                for k in range(len(score)):
                    g = score[k]
                    square[k] += np.float32(g * g)
                    row[k] -= np.float32(rate * g / math.sqrt(square[k]))
    return likelihood


@njit(nogil=True, cache=True)
def best_labels(text, heads, weights, labels):
    """The likeliest relation of every arc, −1 for a word without a head."""
    places, score = np.empty(N_FEATURES, np.int64), np.zeros(weights.shape[1])
    for s in range(len(text.offsets) - 1):
        lo, n = text.offsets[s], text.offsets[s + 1] - text.offsets[s]
        word, tag = np.empty(n + 2, np.uint64), np.empty(n + 2, np.uint64)
        load_sentence(text, s, word, tag)
        for c in range(n):
            if heads[lo + c] < 0:
                labels[lo + c] = -1
                continue
            label_features(heads[lo + c] - 1, c, word, tag, text.shift, places)
            add_scores(places, weights, score)
            labels[lo + c] = np.argmax(score)
