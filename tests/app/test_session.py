"""A session keeps the store true to what was typed and written, whatever the engine does."""

import asyncio
import json
from unittest.mock import Mock

import pytest
import scripted_worker
from sessions import done, ready, until

from app.keeping import Keeping
from app.session import RefusedError
from app.store.store import Store
from app.store.values import Attachment, StoreError
from grammars.spec import GrammarSpec

YES = GrammarSpec(kind="choice", text='["yes","no"]', name="yes or no")
HELD = [{"say": "Half of it"}, {"hold": True}]


async def test_verified_numerics_reach_the_badge(begin):
    probed = {"type": "probed", "exact": "exact", "detail": "rows are equal"}
    session = await ready(begin({"load": [*scripted_worker.LOADED, {"send": probed}]}))
    await until(lambda: session.engine.ready.numerics_reason == "rows are equal")
    assert session.engine.ready.exact == "exact"


async def test_a_reply_in_shape_ends_in_the_store_with_its_verdict_and_trace(begin):
    session = await ready(begin({"turns": [[{"say": "yes", "size": 3}, {"end": "stop"}]]}))
    session.set_shape(YES)
    session.send("Is it?")
    await done(session)
    user, reply = session.path
    assert (user.content, user.shape) == ("Is it?", YES)
    assert (reply.content, reply.shape, reply.reply.valid, reply.reply.finish) == ("yes", YES, True, "stop")
    assert [token.text for token in session.store.trace(reply.id)] == ["yes"]
    assert session.chat.title == "Is it?"


async def test_the_prompt_is_stored_before_the_engine_answers(begin, tmp_path):
    session = await ready(begin({"turns": [HELD]}))
    session.send("hello")
    assert [message.content for message in session.path] == ["hello"]
    with Store(tmp_path / "chats.sqlite3") as other:
        assert other.path(session.chat.id)[0].content == "hello"


async def test_the_engine_is_sent_the_whole_path_with_shapes_and_ids(begin, tmp_path):
    log = tmp_path / "commands"
    turn = [{"log": str(log)}, {"say": "yes"}, {"end": "stop"}]
    session = await ready(begin({"turns": [turn, turn]}))
    session.set_system("Be brief.")
    session.set_shape(YES)
    session.send("one")
    await done(session)
    session.toggle_shape()
    session.send("two")
    await done(session)
    first, second = [json.loads(line) for line in log.read_text().splitlines()]
    assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "user"]
    assert first["shape"]["text"] == YES.text
    assert second["shape"] is None
    assert second["messages"][1]["shape"]["text"] == YES.text
    assert second["messages"][2]["tokens"] == [0]
    assert second["messages"][2]["vocabulary"] == "v1"
    assert second["messages"][3]["shape"] is None


async def test_a_hidden_shape_is_enforced_and_not_shown_to_the_model(begin, tmp_path):
    log = tmp_path / "commands"
    session = await ready(begin({"turns": [[{"log": str(log)}, {"end": "stop"}]]}))
    session.set_shape(YES)
    session.toggle_shown()
    session.send("one")
    await done(session)
    command = json.loads(log.read_text())
    assert command["shape"]["text"] == YES.text
    assert command["messages"][0]["shape"] is None


async def test_a_shape_switched_off_is_kept_and_comes_back(begin):
    session = begin({})
    session.set_shape(YES)
    session.toggle_shape()
    assert (session.chat.shape, session.chat.shape_on) == (YES, False)
    session.open(session.chat.id)
    session.toggle_shape()
    assert (session.chat.shape, session.chat.shape_on) == (YES, True)


async def test_a_stop_keeps_the_partial_reply_and_the_next_turn_works(begin):
    session = await ready(begin({"turns": [HELD, [{"say": "more"}, {"end": "stop"}]]}))
    session.send("go")
    await until(lambda: session.live.text == "Half of it")
    assert session.stop()
    await done(session)
    assert (session.path[-1].content, session.path[-1].reply.finish) == ("Half of it", "cancelled")
    assert not session.stop()
    session.send("again")
    await done(session)
    assert session.path[-1].content == "more"


async def test_a_crash_keeps_the_partial_reply_and_a_restart_goes_on(begin):
    script = {"turns": [[{"say": "Half of it"}, {"die": -11}]]}
    session = await ready(begin(script))
    session.send("go")
    await done(session)
    assert session.engine.state == "gone"
    assert "segmentation fault" in session.trouble
    assert (session.path[-1].content, session.path[-1].reply.finish) == ("Half of it", "error")
    with pytest.raises(RefusedError, match=r"The engine is not running; Ctrl\+R starts it\."):
        session.send("more")
    session.restart()
    await ready(session)
    assert session.trouble == ""


async def test_a_stopped_load_can_be_begun_again(begin):
    session = begin({"load": [{"send": {"type": "loading", "fraction": 0.25}}, {"hold": True}]})
    await until(lambda: session.engine.fraction == 0.25)
    assert session.stop()
    await until(lambda: session.engine.state == "stopped")
    pid = session.engine.pid
    session.restart()
    assert session.engine.state == "loading"
    await until(lambda: session.engine.fraction == 0.25)
    assert session.engine.pid == pid


async def test_an_old_stop_does_not_end_a_new_load(begin, monkeypatch):
    # The timer that insists on a stop once outlived it and ended the load that followed within the same second.
    monkeypatch.setattr("app.supervisor.STOP_S", 0.1)
    session = begin({"load": [{"send": {"type": "loading", "fraction": 0.25}}, {"hold": True}]})
    await until(lambda: session.engine.fraction == 0.25)
    session.stop()
    await until(lambda: session.engine.state == "stopped")
    session.restart()
    await asyncio.sleep(0.2)
    assert session.engine.state == "loading"


async def test_a_load_that_does_not_obey_is_ended_with_its_process(begin):
    session = begin({"load": [{"send": {"type": "loading", "fraction": 0.25}}, {"deaf": True}]})
    await until(lambda: session.engine.fraction == 0.25)
    session.stop()
    await until(lambda: session.engine.state == "stopped")
    session.restart()
    await until(lambda: session.engine.fraction == 0.25)


async def test_a_model_that_cannot_be_loaded_is_a_sentence_and_can_be_tried_again(begin):
    failure = {"type": "failed", "kind": "model", "message": "No such file: m.gguf."}
    session = begin({"load": [{"send": failure}]})
    await until(lambda: session.engine.state == "failed")
    assert session.engine.reason == "No such file: m.gguf."
    session.restart()
    assert session.engine.state == "loading"


async def test_a_store_that_fails_halfway_sends_nothing_and_takes_nothing_from_the_draft(
    begin, monkeypatch
) -> None:
    # The message was stored and its attachments with it, so what was sent once more went without them.
    session = await ready(begin({"turns": [[{"end": "stop"}]]}))
    session.set_draft("Look.")
    session.store.add_attachment(session.chat.id, Attachment(name="a.txt", content="text"))
    full = StoreError("The disk is full.")
    monkeypatch.setattr(session.store, "begin_reply", Mock(side_effect=full))
    with pytest.raises(StoreError):
        session.send("Look.")
    monkeypatch.undo()
    stored = session.store.chat(session.chat.id)
    assert (stored.draft, stored.title, stored.messages, session.busy) == ("Look.", "", 0, False)
    assert [one.name for one in session.store.draft_attachments(session.chat.id)] == ["a.txt"]
    session.send("Look.")
    await done(session)
    assert [message.content for message in session.path] == ["Look.", ""]
    assert [one.name for one in session.path[0].attachments] == ["a.txt"]
    monkeypatch.setattr(session.store, "begin_reply", Mock(side_effect=full))
    with pytest.raises(StoreError):
        session.edit(session.path[0].id, "Look again.")
    monkeypatch.undo()
    assert len(session.store.siblings(session.path[0].id)) == 1


async def test_earlier_replies_that_cannot_be_read_send_nothing_and_leave_nothing_busy(
    begin, monkeypatch
) -> None:
    session = await ready(begin({"turns": [[{"end": "stop"}]]}))
    session.set_shape(GrammarSpec(kind="regex", text="a"))
    session.set_draft("Look.")
    monkeypatch.setattr(
        session.store, "earlier_replies", Mock(side_effect=StoreError("The disk reports an error."))
    )
    with pytest.raises(StoreError):
        session.send("Look.")
    stored = session.store.chat(session.chat.id)
    assert (stored.draft, stored.messages, session.busy, session.live) == ("Look.", 0, False, None)


@pytest.mark.parametrize("kind", ["usage", "shape", "model"])
@pytest.mark.parametrize("before", [[], ["hello"]])
async def test_a_turn_refused_unread_leaves_the_path_and_comes_back_as_the_draft(begin, kind, before):
    # An oversized message once stayed in the path, and with it every later turn was refused.
    failure = {"type": "failed", "kind": kind, "message": "$.a: not supported.", "turn": "$turn"}
    fine = [{"say": "fine"}, {"end": "stop"}]
    session = await ready(begin({"turns": [*(fine for _ in before), [{"send": failure}], fine]}))
    for text in before:
        session.send(text)
        await done(session)
    path, name = session.path, session.chat.title
    session.send("one")
    session.set_draft("typed since")
    await done(session)
    assert session.trouble == "$.a: not supported."
    assert session.path == path
    assert (session.chat.draft, session.chat.title) == ("one\n\ntyped since", name)
    assert session.chat.messages == len(path)
    assert (session.take_returned(session.chat.id), session.take_returned(session.chat.id)) == ("one", "")
    session.send("two")
    await done(session)
    assert session.trouble == ""
    assert [message.content for message in session.path] == [m.content for m in path] + ["two", "fine"]


async def test_a_turn_refused_while_another_chat_is_open_waits_as_the_draft_of_its_own(begin):
    failure = {"type": "failed", "kind": "usage", "message": "Too long.", "turn": "$turn"}
    session = await ready(begin({"turns": [[{"send": failure}]]}))
    first = session.chat.id
    session.send("one")
    session.new_chat()
    await done(session)
    assert session.take_returned(session.chat.id) == ""
    assert session.trouble == "In the chat “one”: Too long."
    session.open(first)
    assert (session.chat.draft, session.path, session.trouble) == ("one", [], "")


async def test_a_turn_that_fails_when_it_was_begun_stays_in_the_path(begin):
    failure = {"type": "failed", "kind": "shape", "message": "It broke.", "turn": "$turn"}
    started = {"type": "started", "turn": "$turn", "prompt_tokens": 6, "reused_tokens": 0, "seed": 1}
    session = await ready(begin({"turns": [[{"send": started}, {"send": failure}]]}))
    session.send("one")
    await done(session)
    assert [message.content for message in session.path] == ["one", ""]
    assert session.told_in_path(session.trouble)


async def test_a_larger_context_is_told_with_the_option_that_makes_it(begin):
    sentence = "The prompt has 9 tokens and the context holds 8; shorten it or ask for a larger context."
    failure = {"type": "failed", "kind": "usage", "message": sentence, "turn": "$turn"}
    session = await ready(begin({"turns": [[{"send": failure}]]}))
    session.send("one")
    await done(session)
    assert "--context N" in session.trouble


async def test_a_silent_engine_is_told_and_can_be_restarted_with_the_reply_kept(begin):
    script = {"heartbeat": False, "turns": [[{"say": "Half of it"}, {"deaf": True}]]}
    session = await ready(begin(script, silence_s=0.5))
    session.send("go")
    await until(lambda: session.live.text == "Half of it")
    await until(lambda: session.engine.silent_s >= 0.5)
    session.restart()
    assert session.engine.silent_s == 0
    assert (session.path[-1].content, session.path[-1].reply.finish) == ("Half of it", "error")
    await ready(session)


async def test_a_turn_that_does_not_obey_a_stop_can_be_ended_by_a_restart(begin):
    session = await ready(begin({"turns": [[{"say": "Half of it"}, {"deaf": True}]]}))
    session.send("go")
    await until(lambda: session.live.text == "Half of it")
    session.stop()
    session.restart()
    await ready(session)
    assert session.path[-1].content == "Half of it"


async def test_a_stop_is_slow_after_a_second(begin):
    now = [0.0]
    turns = [[{"say": "Half of it"}, {"deaf": True}]]
    session = await ready(begin({"turns": turns}, clock=lambda: now[0]))
    session.send("go")
    await until(lambda: session.live.text == "Half of it")
    now[0] = 9.0
    assert not session.stop_is_slow
    session.stop()
    now[0] = 9.9
    assert not session.stop_is_slow
    session.stop()  # asking again does not begin the second anew
    now[0] = 10.0
    assert session.stop_is_slow


async def test_a_command_the_engine_cannot_read_ends_the_reply_with_a_sentence(begin):
    failure = {"type": "failed", "kind": "internal", "message": "The engine cannot read this."}
    session = await ready(begin({"turns": [[{"say": "Half of it"}, {"send": failure}, {"hold": True}]]}))
    session.send("go")
    await done(session)
    assert session.trouble == "The engine cannot read this."
    assert (session.path[-1].content, session.path[-1].reply.finish) == ("Half of it", "error")


@pytest.mark.parametrize("text", ["", "  \n "])
async def test_nothing_is_not_sent(begin, text):
    session = await ready(begin({}))
    with pytest.raises(RefusedError):
        session.send(text)
    assert session.path == []


async def test_one_reply_at_a_time_and_nothing_before_the_model_is_there(begin):
    session = begin({"turns": [HELD]})
    with pytest.raises(RefusedError, match="not loaded"):
        session.send("early")
    await ready(session)
    session.send("one")
    with pytest.raises(RefusedError, match="being written"):
        session.send("two")
    with pytest.raises(RefusedError, match="well"):
        session.restart()


async def test_a_reply_goes_on_while_another_chat_is_open(begin):
    session = await ready(begin({"turns": [HELD]}))
    first = session.chat.id
    session.send("go")
    session.new_chat()
    assert session.chat.id != first
    assert session.live_here is None
    await until(lambda: session.live.text == "Half of it")
    session.stop()
    await done(session)
    assert session.path == []
    session.open(first)
    assert session.path[-1].content == "Half of it"


async def test_a_long_reply_is_checkpointed_while_it_is_written(begin, tmp_path):
    session = await ready(begin({"turns": [HELD]}, clock=iter(range(10**6)).__next__))
    session.send("go")
    await until(lambda: session.live.text == "Half of it")
    await until(lambda: session.store.trace(session.live.reply))
    with Store(tmp_path / "chats.sqlite3") as other:
        assert "".join(token.text for token in other.trace(session.live.reply)) == "Half of it"


async def test_closing_in_mid_reply_keeps_what_was_written(begin):
    session = await ready(begin({"turns": [HELD]}))
    session.send("go")
    await until(lambda: session.live.text == "Half of it")
    await session.close()
    reply = session.store.path(session.chat.id)[-1]
    assert (reply.content, reply.reply.finish) == ("Half of it", "cancelled")


async def test_a_full_disk_is_told_and_the_reply_is_still_shown(begin, monkeypatch):
    session = await ready(begin({"turns": [[{"say": "shown"}, {"end": "stop"}]]}))

    def full(*_args, **_options):
        raise StoreError("chats.sqlite3 cannot grow: the disk is full.")

    session.send("go")
    monkeypatch.setattr(session.store, "finish_reply", full)
    await done(session)
    assert "disk is full" in session.trouble
    assert session.live.text == "shown"


async def test_unsent_text_stays_with_its_chat(begin):
    session = begin({})
    first = session.chat.id
    session.set_draft("half a thought")
    again = begin({})
    assert (again.chat.id, again.chat.draft) == (first, "half a thought")


async def test_an_empty_chat_is_not_exported(begin, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RefusedError, match="nothing to export"):
        Keeping(begin({})).export()
    assert list(tmp_path.glob("chat-*")) == []


async def test_an_unused_chat_is_used_again(begin):
    session = begin({})
    session.new_chat()
    session.new_chat()
    assert len(session.store.chats()) == 1


async def test_lone_surrogates_are_replaced_before_they_are_stored(begin):
    session = await ready(begin({"turns": [[{"end": "stop"}]]}))
    session.send("a\ud800b")
    await done(session)
    assert session.path[0].content == "a\ufffdb"


async def test_an_export_never_overwrites(begin, tmp_path, monkeypatch):
    session = await ready(begin({"turns": [[{"say": "yes"}, {"end": "stop"}]]}))
    session.send("../../etc: Is it [/x]?")
    await done(session)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    first, second = Keeping(session).export(), Keeping(session).export()
    assert first != second
    assert first.parent == second.parent == folder
    assert json.loads(first.read_text())["chat"]["messages"][1]["content"] == "yes"
