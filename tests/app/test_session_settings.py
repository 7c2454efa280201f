"""What a session takes from the settings, and loading another model."""

import json
from dataclasses import replace

import pytest
import scripted_worker
from sessions import done, ready, until

from app.session import RefusedError
from engine.protocol import Load


async def test_new_chats_begin_with_the_system_prompt_of_the_settings(begin):
    session = begin({}, system="Be brief.")
    assert session.chat.system == "Be brief."
    session.new_chat()
    assert session.chat.system == "Be brief."
    assert [chat.id for chat in session.store.chats()] == [session.chat.id]  # it was unused


async def test_an_unused_chat_takes_a_changed_default_and_a_used_one_keeps_its_own(begin):
    session = begin({}, system="old")
    session.set_defaults(session.defaults, "new")
    assert session.chat.system == "new"
    session.set_draft("a draft")
    session.set_defaults(session.defaults, "newest")
    assert session.chat.system == "new"
    session.new_chat()
    assert session.chat.system == "newest"


async def test_another_model_is_loaded_in_a_new_process(begin, tmp_path):
    log = tmp_path / "log"
    load = [{"log": str(log)}, {"send": {"type": "loading", "fraction": 0.5}}]
    session = await ready(begin({"load": [*load, {"send": scripted_worker.READY}]}))
    first = session.engine.pid
    session.load(replace(session.engine.wanted, model="other.gguf", draft_model="small.gguf"))
    assert session.engine.state == "loading"
    assert session.engine.model_name == "other.gguf"
    await ready(session)
    assert session.engine.pid != first
    loads = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["model"], line["draft_model"]) for line in loads] == [
        ("m.gguf", None),
        ("other.gguf", "small.gguf"),
    ]


async def test_a_model_may_be_chosen_while_another_one_loads_and_after_one_failed(begin):
    failed = {"send": {"type": "failed", "kind": "model", "message": "no"}}
    session = begin({"load": [failed]})
    session.load(Load(model="a.gguf"))
    session.load(Load(model="b.gguf"))
    await until(lambda: session.engine.state == "failed")
    session.load(Load(model="c.gguf"))
    assert (session.engine.state, session.engine.reason) == ("loading", "")


async def test_no_model_is_changed_under_a_reply_that_is_written(begin):
    session = await ready(begin({"turns": [[{"say": "Half"}, {"hold": True}]]}))
    session.send("go")
    await until(lambda: session.live.text)
    with pytest.raises(RefusedError, match="A reply is being written"):
        session.load(Load(model="other.gguf"))
    session.stop()
    await done(session)
