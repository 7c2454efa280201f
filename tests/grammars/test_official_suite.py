"""The official JSON Schema suite: the table beside this file is current, and nothing in it is wrong."""

from pathlib import Path

import pytest
from bench.official_suite import Report, report

TABLE = Path(__file__).with_name("official_suite.md")


@pytest.fixture(scope="module")
def fresh() -> Report:
    return report()


def test_every_document_that_the_grammar_judges_otherwise_is_explained(fresh: Report) -> None:
    assert fresh.wrong == ()


def test_the_table_is_current(fresh: Report) -> None:
    assert fresh.table == TABLE.read_text(encoding="utf-8"), (
        "the suite comes out otherwise: python tests/bench/official_suite.py > tests/grammars/official_suite.md"
    )
