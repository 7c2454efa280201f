"""Model files that lie: read or refused in a sentence, at once, whatever stands in them."""

import pytest
from fuzz_targets import fuzz


def test_no_model_file_leads_to_anything_but_a_sentence() -> None:
    fuzz("model files", 200)


@pytest.mark.proof
def test_nor_do_two_thousand() -> None:
    fuzz("model files", 2_000)
