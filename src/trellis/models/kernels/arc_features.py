"""Features of arcs (Ganchev et al. 2010, table 7; McDonald et al. 2005), hashed to places of a weight vector.

    score(h, c) = head(h, b) + child(c, b) + Σ_{pair features} w,      b the direction and the binned distance of the
    arc

Features of one end alone are the same for all arcs of a word with one b, so that they are looked up once for each b and
not once for each arc. Words and tags come as random 64-bit keys; a feature is a sum of odd multiples of its keys, and
the upper bits of that are its place (multiply-shift hashing).

Beyond the table there are tags two words off, the words beside either end, and the two words before the child, which
say much where heads are content words (the preposition of a noun, say).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.tree_log import BEST, read_trees

U = np.uint64
MULTIPLIERS = tuple(
    U(x)
    for x in (
        0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
        0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3, 0x1D8E4E27C47D124F,
    )
)  # fmt: skip
M0, M1, M2, M3, M4, M5, M6, M7, M8 = MULTIPLIERS


class ArcText(NamedTuple):
    """What kernels read of a batch: codes of words and tags, the keys that codes stand for, and how far hashes shift.

    words, tags : (n_words,) codes;  word_keys, tag_keys : uint64;  lexical : whether features look at words
    shift : 64 − bits of a place
    """

    offsets: object
    arc_offsets: object
    words: object
    tags: object
    word_keys: object
    tag_keys: object
    lexical: object
    shift: object


N_BINS = 15
"""Seven distances to the left, seven to the right, and the root."""
ROOT_BIN = 14
N_SIDE = 16
MOST_BETWEEN = 20
MOST_PAIR = 33 + 2 * MOST_BETWEEN


@njit(nogil=True, cache=True)
def bin_of(h, c):
    """Direction and distance of an arc between places; −1 is the root."""
    if h < 0:
        return ROOT_BIN
    d = abs(h - c)
    if d <= 4:
        b = d - 1
    elif d <= 6:
        b = 4
    elif d <= 10:
        b = 5
    else:
        b = 6
    return b if c < h else b + 7


@njit(nogil=True, cache=True)
def place(x, template, shift):
    """Where the feature with this sum of keys stands."""
    x = (x + U(template) * M7) * M0
    x ^= x >> U(29)
    return np.int64((x * M4) >> shift)


@njit(nogil=True, cache=True)
def side_features(w, is_head, b, word, tag, lexical, shift, out):
    """Places of the features of one end; word, tag : keys of a sentence, with one more at either end, the root at
    −1."""
    d = U(0 if b < 7 else (1 if b < 14 else 2)) * M5
    t = U(100 if is_head else 200)
    far = U(b + 3) * M6
    a, p, before, after = word[w + 1], tag[w + 1], tag[w], tag[w + 2]
    out[0] = place(p * M2 + far, t + U(2), shift)
    out[1] = place(p * M2 + d, t + U(5), shift)
    out[2] = place(before * M3 + p * M2 + far, t + U(6), shift)
    out[3] = place(p * M2 + after * M8 + far, t + U(7), shift)
    out[4] = place(before * M3 + p * M2 + after * M8 + far, t + U(8), shift)
    out[5] = place(tag[max(w - 1, 0)] * M4 + before * M3 + p * M2 + d, t + U(12), shift)
    out[6] = place(p * M2 + after * M8 + tag[min(w + 3, len(tag) - 1)] * M4 + d, t + U(13), shift)
    if not lexical:
        return 7
    out[7] = place(a * M1 + p * M2 + far, t + U(0), shift)
    out[8] = place(a * M1 + far, t + U(1), shift)
    out[9] = place(a * M1 + p * M2 + d, t + U(3), shift)
    out[10] = place(a * M1 + d, t + U(4), shift)
    out[11] = place(before * M3 + p * M2 + after * M8 + a * M1 + d, t + U(9), shift)
    out[12] = place(word[w] * M3 + p * M2 + d, t + U(10), shift)
    out[13] = place(word[w + 2] * M8 + p * M2 + d, t + U(11), shift)
    out[14] = place(a * M1 + before * M3 + d, t + U(14), shift)
    out[15] = place(a * M1 + after * M8 + d, t + U(15), shift)
    return N_SIDE


@njit(nogil=True, cache=True)
def pair_features(h, c, b, word, tag, kinds, between, lexical, shift, out):
    """Places of the features of both ends together.

    kinds : (n_kinds,) keys of tags;  between : (2 n_kinds + 1,) what stands between the ends, see ``pass_by``
    """
    d = U(0 if b < 7 else (1 if b < 14 else 2)) * M5
    far = U(b + 3) * M6
    hp, cp = tag[h + 1] * M2, tag[c + 1] * M4
    h_before = tag[h] * M7 if h >= 0 else U(0)
    h_after, c_before, c_after = tag[h + 2] * M8, tag[c] * M5, tag[c + 2] * M6
    ends = hp + cp
    out[0] = place(ends + d, U(9), shift)
    out[1] = place(ends + far, U(10), shift)
    out[2] = place(ends + h_after + c_before + d, U(11), shift)
    out[3] = place(ends + h_before + c_before + d, U(12), shift)
    out[4] = place(ends + h_after + c_after + d, U(13), shift)
    out[5] = place(ends + h_before + c_after + d, U(14), shift)
    out[6] = place(ends + h_after + c_before + far, U(15), shift)
    out[7] = place(ends + h_before + c_before + far, U(16), shift)
    out[8] = place(ends + h_after + c_after + far, U(17), shift)
    out[9] = place(ends + h_before + c_after + far, U(18), shift)
    out[10] = place(ends + h_before + d, U(19), shift)
    out[11] = place(ends + h_after + d, U(20), shift)
    out[12] = place(ends + c_before + d, U(21), shift)
    out[13] = place(ends + c_after + d, U(22), shift)
    apart = U(min(abs(h - c), 15)) * M0 if h >= 0 else U(0)
    out[14] = place(ends + apart + d, U(25), shift)
    n = 15
    if h >= 0:
        for k in range(min(between[-1], MOST_BETWEEN)):
            kind = between[len(kinds) + k]
            out[n] = place(ends + kinds[kind] * M0 + d, U(23), shift)
            out[n + 1] = place(ends + kinds[kind] * M0 + U(min(between[kind], 3)) * M1 + d, U(24), shift)
            n += 2
    if not lexical:
        return n
    hw, cw = word[h + 1] * M1, word[c + 1] * M3
    w1, w2, w3 = word[c] * M7, word[max(c - 1, 0)] * M7, word[max(c - 2, 0)] * M7
    out[n] = place(hw + hp + cw + cp + d, U(1), shift)
    out[n + 1] = place(hp + cw + cp + d, U(2), shift)
    out[n + 2] = place(hp + cw + cp + far, U(3), shift)
    out[n + 3] = place(hw + cw + cp + d, U(4), shift)
    out[n + 4] = place(hw + hp + cp + d, U(5), shift)
    out[n + 5] = place(hw + hp + cp + far, U(6), shift)
    out[n + 6] = place(hw + hp + cw + d, U(7), shift)
    out[n + 7] = place(hw + cw + d, U(8), shift)
    out[n + 8] = place(hw + cp + c_before + d, U(26), shift)
    out[n + 9] = place(hw + cp + c_after + d, U(27), shift)
    out[n + 10] = place(cw + hp + h_after + d, U(28), shift)
    out[n + 11] = place(cw + hp + h_before + d, U(29), shift)
    out[n + 12] = place(ends + w1 + d, U(30), shift)
    out[n + 13] = place(hw + cp + w1 + d, U(31), shift)
    out[n + 14] = place(ends + c_before + w2 + d, U(32), shift)
    out[n + 15] = place(hw + cp + c_before + w2 + d, U(33), shift)
    out[n + 16] = place(ends + c_before + tag[max(c - 1, 0)] * M8 + w3 + d, U(34), shift)
    out[n + 17] = place(ends + word[h + 2] * M7 + d, U(35), shift)
    return n + 18


@njit(nogil=True, cache=True)
def pass_by(kind, between):
    """Count a tag: how often each was met, then which there are in the order in which they were, last how many."""
    if between[kind] == 0:
        between[len(between) // 2 + between[-1]] = kind
        between[-1] += 1
    between[kind] += 1


@njit(nogil=True, cache=True)
def load_sentence(text, s, word, tag):
    """Keys of a sentence between those of its two ends; the root, at place −1, looks like the left end."""
    lo, n = text.offsets[s], text.offsets[s + 1] - text.offsets[s]
    word[0], tag[0] = M1, M2
    for t in range(n):
        word[t + 1], tag[t + 1] = text.word_keys[text.words[lo + t]], text.tag_keys[text.tags[lo + t]]
    word[n + 1], tag[n + 1] = M3, M4


@njit(nogil=True, cache=True)
def score_sentence(text, s, weights, score):
    """score : (n · n,) the sums of the weights of the features of each arc."""
    lo, n = text.offsets[s], text.offsets[s + 1] - text.offsets[s]
    places, between = np.empty(MOST_PAIR, np.int64), np.zeros(2 * len(text.tag_keys) + 1, np.int64)
    word, tag = np.empty(n + 2, np.uint64), np.empty(n + 2, np.uint64)
    load_sentence(text, s, word, tag)
    sides = np.zeros((2, n, N_BINS))
    for t in range(n):
        for end in range(2):
            for b in range(N_BINS):
                if end == 0 and b == ROOT_BIN:
                    continue
                total = 0.0
                for k in range(side_features(t, end == 0, b, word, tag, text.lexical, text.shift, places)):
                    total += weights[places[k]]
                sides[end, t, b] = total
    for h in range(-1, n):
        for step in (-1, 1):
            between[:] = 0
            c = h + step
            while 0 <= c < n:
                b = bin_of(h, c)
                total = sides[1, c, b]
                if h >= 0:
                    total += sides[0, h, b]
                for k in range(
                    pair_features(h, c, b, word, tag, text.tag_keys, between, text.lexical, text.shift, places)
                ):
                    total += weights[places[k]]
                score[c * n + (h if h >= 0 else c)] = total
                pass_by(text.tags[lo + c], between)
                c += step


@njit(nogil=True, cache=True)
def use_sentence(text, s, amount, least, uses, rate, state):
    """Add amount[arc] at the features of every arc of a sentence; or, with a rate, step down this gradient.

    least : amounts no larger than this are left out
    uses : (n_weights,) what is added to, or the weights that step;  rate : of AdaGrad, 0 adds
    state : (3, n_weights) squares of gradients; steps, each times its number; and the number of the step, at [2, 0]
    """
    lo, n = text.offsets[s], text.offsets[s + 1] - text.offsets[s]
    places, between = np.empty(MOST_PAIR, np.int64), np.zeros(2 * len(text.tag_keys) + 1, np.int64)
    word, tag = np.empty(n + 2, np.uint64), np.empty(n + 2, np.uint64)
    load_sentence(text, s, word, tag)
    sides = np.zeros((2, n, N_BINS))
    for h in range(-1, n):
        for step in (-1, 1):
            between[:] = 0
            c = h + step
            while 0 <= c < n:
                g = amount[c * n + (h if h >= 0 else c)]
                if abs(g) > least:
                    b = bin_of(h, c)
                    sides[1, c, b] += g
                    if h >= 0:
                        sides[0, h, b] += g
                    count = pair_features(h, c, b, word, tag, text.tag_keys, between, text.lexical, text.shift, places)
                    spread(places, count, g, uses, rate, state)
                pass_by(text.tags[lo + c], between)
                c += step
    for t in range(n):
        for end in range(2):
            for b in range(N_BINS):
                if sides[end, t, b] != 0.0:
                    count = side_features(t, end == 0, b, word, tag, text.lexical, text.shift, places)
                    spread(places, count, sides[end, t, b], uses, rate, state)


@njit(nogil=True, cache=True)
def spread(places, count, g, uses, rate, state):
    """One amount at several places."""
    if rate == 0.0:
        for k in range(count):
            uses[places[k]] += g
        return
    number = state[2, 0]
    for k in range(count):
        f = places[k]
        state[0, f] += g * g
        move = rate * g / math.sqrt(state[0, f])
        uses[f] -= move
        state[1, f] -= number * move


@njit(nogil=True, cache=True)
def score_arcs(text, weights, score):
    """score : (n_arcs,)."""
    for s in range(len(text.offsets) - 1):
        score_sentence(text, s, weights, score[text.arc_offsets[s] : text.arc_offsets[s + 1]])


@njit(nogil=True, cache=True)
def add_arcs(text, amount, out):
    """out[feature] += Σ amount[arc] over the arcs that have it."""
    none = np.zeros((3, 0))
    for s in range(len(text.offsets) - 1):
        use_sentence(text, s, amount[text.arc_offsets[s] : text.arc_offsets[s + 1]], 0.0, out, 0.0, none)


@njit(nogil=True, cache=True)
def step_arcs(text, gradient, least, weights, rate, state):
    """One stochastic step: every sentence steps down its own gradient."""
    state[2, 0] += 1.0
    for s in range(len(text.offsets) - 1):
        low, high = text.arc_offsets[s], text.arc_offsets[s + 1]
        use_sentence(text, s, gradient[low:high], least, weights, rate, state)


@njit(nogil=True, cache=True)
def margin_pass(text, order, heads, single_root, weights, rate, state):
    """One pass of margin steps: of each sentence, away from the tree that is best with a point for every wrong arc.

    order : sentences, in the order in which they are met;  heads : (n_words,) the right ones
    Returns how many arcs of those trees were wrong.
    """
    errors, none, uniform, best = 0, np.zeros(0), np.zeros((1, 1)), np.zeros(1)
    for s in order:
        lo, n = text.offsets[s], text.offsets[s + 1] - text.offsets[s]
        score, found = np.zeros(n * n), np.zeros((1, n), np.int32)
        score_sentence(text, s, weights, score)
        for c in range(n):
            h = heads[lo + c]
            score[c * n + (h - 1 if h > 0 else c)] -= 1.0
        one, arcs = np.array([0, n]), np.array([0, n * n])
        read_trees(one, arcs, score, none, single_root, BEST, 1, uniform, found, best)
        state[2, 0] += 1.0
        gradient, wrong = np.zeros(n * n), 0
        for c in range(n):
            h, g = heads[lo + c], found[0, c]
            if h != g:
                wrong += 1
                gradient[c * n + (h - 1 if h > 0 else c)] -= 1.0
                gradient[c * n + (g - 1 if g > 0 else c)] += 1.0
        if wrong:
            use_sentence(text, s, gradient, 0.5, weights, rate, state)
            errors += wrong
    return errors
