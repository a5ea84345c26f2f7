"""Pages are run as their readers would run them."""

import pytest


@pytest.fixture(autouse=True)
def small_shards() -> None:
    """In place of the small shards of other tests: those that users have."""
