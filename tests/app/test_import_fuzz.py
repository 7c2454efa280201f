"""Whatever is in an import file, it comes in whole or is refused with a sentence, and soon."""

import json
import random
import time
from collections import Counter
from pathlib import Path

import pytest
from chatting import rich_chat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mangle import mangled, try_import

from app.exchange import export_chat, export_chats
from app.store import Store

HANG_S = 10.0
"""Of the processor's time; tests/bench/fuzz_import.py looks for a second."""


def survive(tmp_path_factory: pytest.TempPathFactory, examples: int) -> Counter[str]:
    """Import that many mangled documents into one store; return how many came in and how many did not."""
    seen: Counter[str] = Counter()
    with Store(tmp_path_factory.mktemp("fuzz") / "s") as store:
        store._database.run("PRAGMA synchronous=OFF")
        documents = [
            export_chat(store, rich_chat(store), trace=True),
            export_chats(store, [1, rich_chat(store)], trace=False),
        ]
        kept = [store.tree(chat.id) for chat in store.chats()]

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(seed=st.integers(0, 2**64))
        def one(seed: int) -> None:
            chance = random.Random(seed)
            text = mangled(chance.choice(documents), chance)
            before = time.process_time()
            seen["came in" if try_import(store, text) is None else "refused"] += 1
            assert time.process_time() - before < HANG_S

        one()
        assert [store.tree(chat.id) for chat in store.chats()] == kept
        assert store._database.rows("PRAGMA main.integrity_check")[0][0] == "ok"
    return seen


def test_mangled_documents_come_in_whole_or_are_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    seen = survive(tmp_path_factory, 100)
    assert seen["came in"] > 3 and seen["refused"] > 40


@pytest.mark.proof
@pytest.mark.timeout(400)
def test_two_thousand_mangled_documents(tmp_path_factory: pytest.TempPathFactory) -> None:
    seen = survive(tmp_path_factory, 2000)
    print(dict(seen))
    assert seen["came in"] > 100 and seen["refused"] > 500


def test_a_document_as_deep_as_it_may_be_and_a_chat_as_long_comes_in(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        document = export_chat(store, rich_chat(store))
        value: object = []
        for _ in range(55):
            value = [value]
        document["chat"]["settings"] = {"deep": value}
        user = document["chat"]["messages"][4]
        document["chat"]["messages"] += [
            {**user, "id": 6 + place, "parent": 5 + place, "attachments": []} for place in range(3000)
        ]
        document["chat"]["leaf"] = 3005
        assert try_import(store, json.dumps(document)) is None
