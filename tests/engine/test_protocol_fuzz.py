"""Lines that are no messages: both codecs answer with a `ProtocolError`, and messages come back as they went."""

import pytest
from fuzz_targets import fuzz


def test_no_line_leads_to_anything_but_a_protocol_error() -> None:
    fuzz("protocol lines", 200)


@pytest.mark.proof
def test_nor_do_two_thousand() -> None:
    fuzz("protocol lines", 2_000)
