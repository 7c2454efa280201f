"""The export format: every export fits the published schema, and the schema says what the program reads."""

import copy
import dataclasses
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from chatting import CITY, MODEL, YES_NO, finished, reply, rich_chat, tokens
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, FormatChecker
from pydantic import ValidationError

from app.exchange import Export, dumps, export_chat
from app.exchange import format as f
from app.exchange.format import json_schema
from app.store import Store
from engine.events import ModelInfo, Stats, Token
from engine.protocol import Sampling

PUBLISHED = json.loads((resources.files("assets") / "export.schema.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(PUBLISHED, format_checker=FormatChecker())
OF_THE_MODELS = Draft202012Validator(json_schema(), format_checker=FormatChecker())


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "s") as store:
        yield store


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    with Store(tmp_path_factory.mktemp("exchange") / "s") as store:
        return export_chat(store, rich_chat(store), trace=True)


@pytest.mark.parametrize(
    ("written", "known", "left_out"),
    [
        (f.Stats, Stats, set()),
        (f.Sampling, Sampling, {"seed"}),
        (f.Model, ModelInfo, {"path"}),
        (f.TracedToken, Token, set()),
    ],
)
def test_the_format_names_all_that_the_engine_tells(written: Any, known: Any, left_out: set[str]) -> None:
    assert set(written.model_fields) == {field.name for field in dataclasses.fields(known)} - left_out


def test_the_published_schema_is_one_and_names_itself() -> None:
    Draft202012Validator.check_schema(PUBLISHED)
    assert PUBLISHED["$id"] == json_schema()["$id"] == "urn:stampo:export:1"


@pytest.mark.parametrize("trace", [False, True])
def test_an_export_fits_the_schema_and_reads_back_the_same(store: Store, trace: bool) -> None:
    document = export_chat(store, rich_chat(store), trace=trace)
    VALIDATOR.validate(document)
    assert json.loads(dumps(document)) == document
    assert Export.model_validate_json(dumps(document)).model_dump(mode="json") == document


@given(
    title=st.text(),
    content=st.text(),
    key=st.text(),
    value=st.integers() | st.floats(allow_nan=False) | st.text(),
)
@settings(max_examples=30, deadline=None)
def test_any_text_passes_exactly(
    title: str, content: str, key: str, value: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    if value in (float("inf"), float("-inf")):
        value = None
    with Store(tmp_path_factory.mktemp("any") / "s") as store:
        chat = store.create_chat(title=title, system=content)
        store.set_settings(chat, {key: value})
        reply(store, chat, store.add_user(chat, None, content), content)
        document = export_chat(store, chat, trace=True)
    VALIDATOR.validate(document)
    read = Export.model_validate_json(dumps(document)).chat
    assert (read.title, read.system, read.settings) == (title, content, {key: value})
    assert [message.content for message in read.messages] == [content, content]


def test_an_export_holds_the_whole_chat(document: dict[str, Any]) -> None:
    chat = document["chat"]
    assert (chat["title"], chat["system"]) == ("Rome \x1b[31m\u202e", "Answer\0briefly.")
    assert chat["settings"] == {"temperature": 0.5, "stop": ["a", None]}
    tree = [(m["id"], m["parent"], m["role"], m["content"]) for m in chat["messages"]]
    assert tree == [
        (1, None, "user", "Which city? 🌆\0"),
        (2, 1, "assistant", '{"zip":"1","age":2}'),
        (3, 1, "assistant", '{"zip'),
        (4, 1, "assistant", "{}"),
        (5, 4, "user", "and this?"),
    ]
    assert chat["leaf"] == 4
    asked, first, cut, carried, last = chat["messages"]
    assert last["attachments"] == [{"name": "a.txt", "content": "\x07text"}]
    assert asked["shape"] == first["shape"] == CITY.hash
    assert cut["shape"] == carried["shape"] == f"{CITY.hash}-2"
    assert chat["next_shape"] == {"shape": YES_NO.hash, "on": False, "shown": True}
    shape = document["shapes"][CITY.hash]
    assert shape == {
        "hash": CITY.hash,
        "kind": "json_schema",
        "text": CITY.text,
        "whitespace": "spaced",
        "guards": {"digits": 5, "blanks": 12, "string": None, "items": 200, "depth": 24},
        "name": "city",
    }
    assert document["shapes"][f"{CITY.hash}-2"]["name"] == "town"
    assert (cut["finish"], cut["valid"], cut["options"]) == ("length", False, {"max_tokens": 9})
    assert cut["sampling"]["logit_bias"] == {"5": -1.5}
    assert cut["model"] is None
    assert (carried["continued_from"], carried["reasoning"], carried["seed"]) == (3, "hm", 11)
    assert carried["stats"]["sources"] == {"suffix": {"accepted": 2.0}}
    model = document["models"][carried["model"]]
    assert (model["fingerprint"], model["template_hash"]) == (MODEL.fingerprint, MODEL.template_hash)


def test_an_export_tells_nothing_of_trash_drafts_and_places(document: dict[str, Any]) -> None:
    text = dumps(document)
    for secret in ("thrown away", "not yet sent", "/home/ann"):
        assert secret not in text


def test_tokens_and_trace_come_on_request(store: Store) -> None:
    chat = rich_chat(store)
    without, with_trace = (
        export_chat(store, chat, trace=trace)["chat"]["messages"][1] for trace in (False, True)
    )
    assert (without["tokens"], without["trace"]) == (None, None)
    assert with_trace["tokens"] == [token.id for token in tokens(without["content"])]
    assert with_trace["trace"][0] == {
        "id": 0,
        "text": "{",
        "origin": "sampled",
        "allowed": 7,
        "part": "reply",
    }


def test_equal_chats_give_equal_documents(store: Store) -> None:
    chat = rich_chat(store)
    one, two = export_chat(store, chat), export_chat(store, chat)
    for document in (one, two):
        del document["exported_at"], document["program"]
    assert dumps(one) == dumps(two)


def test_a_reply_being_written_is_exported_as_far_as_it_is_on_disk(store: Store) -> None:
    chat = store.create_chat()
    number = store.begin_reply(chat, store.add_user(chat, None, "?"), shape=None, sampling=Sampling())
    store.checkpoint(number, "ab", tokens("ab"))
    document = export_chat(store, chat, trace=True)
    VALIDATOR.validate(document)
    message = document["chat"]["messages"][1]
    assert (message["content"], message["finish"], len(message["trace"])) == ("ab", None, 2)
    store.finish_reply(number, finished("abc"), valid=None, trace=tokens("abc"))
    assert export_chat(store, chat)["chat"]["messages"][1]["finish"] == "stop"


def test_an_empty_chat_can_be_exported(store: Store) -> None:
    document = export_chat(store, store.create_chat())
    VALIDATOR.validate(document)
    assert (document["chat"]["messages"], document["chat"]["leaf"]) == ([], None)


def test_the_text_is_harmless_in_a_terminal(document: dict[str, Any]) -> None:
    text = dumps(document)
    assert not set(text) & {"\x1b", "\u202e", "\x07", "\0"}
    assert "🌆" in text


# --- published schema, the models' own schema, and the models agree

VALUES = [
    None, True, 0, 1, -1, 1.5, 2**63, "", "x", "user", "assistant", "stop", "0" * 64, [], {}, [1], {"a": 1},
    "2026-02-30T00:00:00Z", "2026-02-03T00:00:00Z", "2026-02-03T00:00:00.5Z", "2026-02-03 00:00:00",
    "1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "9989-12-31T23:59:59.999Z", "9990-01-01T00:00:00Z",
]  # fmt: skip


def places(value: Any, path: tuple = ()) -> Iterator[tuple]:
    """Yield the path of every value inside a document."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from places(item, (*path, key))


def mutate(document: dict[str, Any], path: tuple, action: str, value: Any) -> dict[str, Any]:
    document = copy.deepcopy(document)
    parent: Any = document
    for key in path[:-1]:
        parent = parent[key]
    if action == "remove":
        del parent[path[-1]]
    elif action == "add" and isinstance(parent, dict):
        parent["unheard_of"] = value
    else:
        parent[path[-1]] = value
    return document


def refused_for_its_form(document: dict[str, Any]) -> bool:
    """Tell whether the models refuse a document for more than a reference that leads nowhere."""
    try:
        Export.model_validate_json(json.dumps(document))
    except ValidationError as error:
        return any(fault["loc"] for fault in error.errors())
    return False


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_schemas_and_models_refuse_the_same_documents(document: dict[str, Any], data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(list(places(document))))
    action = data.draw(st.sampled_from(["remove", "add", "replace"]))
    changed = mutate(document, path, action, data.draw(st.sampled_from(VALUES)))
    fits = VALIDATOR.is_valid(changed)
    assert OF_THE_MODELS.is_valid(changed) == fits, (path, action)
    assert refused_for_its_form(changed) != fits, (path, action)


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("chat", "messages", 1, "parent"), 4, "message 2 stands before its parent 4"),
        (("chat", "messages", 1, "parent"), 2, "message 2 stands before its parent 2"),
        (("chat", "messages", 1, "id"), 1, "two messages have the id 1"),
        (("chat", "messages", 1, "shape"), "x", 'message 2 refers to "x"'),
        (("chat", "messages", 1, "model"), "x", 'message 2 refers to "x"'),
        (("chat", "messages", 1, "continued_from"), 99, "message 2 refers to 99"),
        (("chat", "leaf"), 99, "the chat refers to 99"),
        (("chat", "next_shape", "shape"), "x", 'the chat refers to "x"'),
    ],
)
def test_a_reference_that_leads_nowhere_is_refused(
    document: dict[str, Any], path: tuple, value: Any, why: str
) -> None:
    with pytest.raises(ValidationError, match=why):
        Export.model_validate(mutate(document, path, "replace", value))


def test_what_the_engine_learns_to_tell_later_is_no_error(document: dict[str, Any]) -> None:
    for path in [("chat", "messages", 1, "stats", "x"), ("chat", "messages", 1, "sampling", "x")]:
        changed = mutate(document, path, "add", 1)
        VALIDATOR.validate(changed)
        Export.model_validate(changed)
