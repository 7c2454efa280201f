"""What tests of all rooms share."""

import gc
from pathlib import Path

import pytest
from hypothesis import settings

from app.models import starter_model

# The same examples in every run, and none that fails because a machine is busy.
settings.load_profile("ci")


def pytest_collection_finish() -> None:
    """Leave what was imported out of the garbage, which would be walked again and again: a third of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The starter model's file; it comes with the `starter` extra, so it is never skipped."""
    path = starter_model()
    assert path is not None, "install the tests with: pip install '.[starter,test]'"
    return path
