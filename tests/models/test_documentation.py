"""The table of a class's parameters is completed from its bases and from what all classes share."""

from __future__ import annotations

import inspect

import pytest

from trellis import SemiCRF
from trellis.models.documentation import SHARED, documented


class Base:
    """A base.

    Parameters
    ----------
    depth : int
        How deep it looks.

    Attributes
    ----------
    seen_ : int
        How much it has seen.
    left_ : int
        How much is left.
    """


class Own(Base):
    """Its own.

    Parameters
    ----------
    width : float
        How wide it is.

    Notes
    -----
    None.
    """

    def __init__(self, width, depth=3, verbose=False): ...


class Learned(Base):
    """It has learned something.

    Parameters
    ----------
    depth : int
        How deep it looks.

    Attributes
    ----------
    left_ : float
        Share that is left.

    Notes
    -----
    None.
    """

    def __init__(self, depth=3): ...


class Unknown:
    """Not documented.

    Parameters
    ----------
    width : float
        How wide it is.
    """

    def __init__(self, width, odd=1): ...


def test_missing_entries_come_from_the_nearest_base_and_then_from_the_shared_table_in_the_order_of_the_signature():
    table = inspect.getdoc(documented(Own)).split("\n")[4:]
    assert table == [
        "width : float", "    How wide it is.",
        "depth : int, default=3", "    How deep it looks.",
        "verbose : bool, default=False", "    " + SHARED["verbose"][1],
        "", "Attributes", "----------", "seen_ : int", "    How much it has seen.", "left_ : int",
        "    How much is left.", "", "Notes", "-----", "None.",
    ]  # fmt: skip


def test_attributes_of_bases_follow_those_of_the_class_itself():
    table = inspect.getdoc(documented(Learned)).split("\n")[6:]
    assert table == [
        "", "Attributes", "----------", "left_ : float", "    Share that is left.", "seen_ : int",
        "    How much it has seen.", "", "Notes", "-----", "None.",
    ]  # fmt: skip


def test_a_parameter_that_nobody_documents_is_an_error():
    with pytest.raises(TypeError, match="does not document its parameter odd"):
        documented(Unknown)


def test_help_shows_all_parameters_of_a_class_that_documents_few_of_them_itself():
    text = inspect.getdoc(SemiCRF)
    for name in inspect.signature(SemiCRF).parameters:
        assert f"\n{name} : " in text
    assert 'solver : str, default="lbfgs"' in text
