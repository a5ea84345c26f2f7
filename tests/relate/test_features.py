"""Features of pairs: what stands at the joints, how words begin and end, and the two last words together."""

from __future__ import annotations

from trellis.models.relation_features import pair_features

TOKENS = ("Near", "Falcon", "Mills", "of", "old", "Rye", ",", "Ann", "left", "Bo", "Day")
MENTIONS = [(1, 3), (5, 6), (7, 8), (9, 11)]


def test_joints_are_named_in_the_order_of_the_text():
    found = set(pair_features(TOKENS, MENTIONS, 0, 1))
    assert {"F:lf=near_of", "F:fl=of_old", "F:lr=old_,", "F:l1r1=near_,", "F:llr=near_old_,"} <= found
    back = set(pair_features(TOKENS, MENTIONS, 1, 0))
    assert {"B:lf=near_of", "B:lr=old_,"} <= back
    assert not {name for name in back if name.startswith("F:")}


def test_last_words_are_named_in_the_order_of_the_relation():
    assert {"hh=mills|rye", "hs=mills|Xxx", "sh=Xxx|rye"} <= set(pair_features(TOKENS, MENTIONS, 0, 1))
    assert {"hh=rye|mills", "hs=rye|Xxx", "sh=Xxx|mills"} <= set(pair_features(TOKENS, MENTIONS, 1, 0))


def test_every_word_of_both_has_its_beginning_and_end():
    found = set(pair_features(TOKENS, MENTIONS, 0, 3))
    assert {"1:p3=fal", "1:s3=con", "1:p3=mil", "1:s3=lls", "2:p3=bo", "2:s3=day"} <= found
    assert "F:fl=of_left" in found  # other mentions between are one sign, and not at the joints here


def test_nothing_between_and_the_ends_of_a_sentence():
    found = set(pair_features(("Ann", "Ely"), [(0, 1), (1, 2)], 0, 1))
    assert {"F:lf=<>_-", "F:fl=-_-", "F:lr=-_<>", "F:l1r1=<>_<>"} <= found
    assert not {name for name in found if name.startswith(("F:bf=", "F:bl="))}
    inside = pair_features(("New", "York", "Times"), [(0, 3), (0, 2)], 0, 1)  # one mention in the other
    assert {"hh=times|york", "B:fl=-_-"} <= set(inside)
