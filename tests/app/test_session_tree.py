"""A chat is a tree: what is asked again, carried on, forked or thrown away stands beside what was there."""

import json
from dataclasses import replace

import pytest
from sessions import done, ready

from app.session import RefusedError
from grammars.spec import GrammarSpec

YES = GrammarSpec(kind="choice", text='["yes","no"]', name="yes or no")


@pytest.fixture
def script(tmp_path):
    """Return a script whose every turn logs its command, says `yes` and stops; and a function that reads the log."""
    log = tmp_path / "commands"

    def turns(*ends: str, say: str = "yes") -> dict:
        return {"turns": [[{"log": str(log)}, {"say": say, "size": 1}, {"end": end}] for end in ends]}

    turns.commands = lambda: [json.loads(line) for line in log.read_text().splitlines()]
    return turns


async def ask(session, text: str):
    session.send(text)
    await done(session)
    return session.path[-1]


def contents(session) -> list[str]:
    return [message.content for message in session.path]


async def test_an_edited_message_stands_beside_the_old_one_and_keeps_its_shape(begin, script):
    session = await ready(begin(script("stop", "stop")))
    session.set_shape(YES)
    await ask(session, "Is it?")
    session.set_shape(None)
    session.edit(session.path[0].id, "Is it really?")
    await done(session)
    user, reply = session.path
    assert (user.content, user.sibling, user.siblings) == ("Is it really?", 2, 2)
    assert user.shape == reply.shape == YES
    assert script.commands()[1]["shape"]["text"] == YES.text
    assert len(script.commands()[1]["messages"]) == 1


async def test_another_reply_keeps_the_shape_and_takes_a_new_seed(begin, script):
    session = await ready(begin(script("stop", "stop")))
    session.set_shape(YES)
    reply = await ask(session, "Is it?")
    session.set_shape(None)
    session.regenerate(reply.id)
    await done(session)
    assert (session.path[-1].sibling, session.path[-1].siblings) == (2, 2)
    assert session.path[-1].shape == YES
    assert script.commands()[1]["sampling"]["seed"] is None


async def test_the_same_reply_can_be_asked_for_again_with_its_seed_and_settings(begin, script):
    session = await ready(begin(script("stop", "stop")))
    session.store.set_settings(session.chat.id, {"temperature": 1.25, "max_tokens": 7})
    session.open(session.chat.id)
    reply = await ask(session, "Is it?")
    session.store.set_settings(session.chat.id, {})
    session.open(session.chat.id)
    session.regenerate(reply.id, same_seed=True)
    await done(session)
    again = script.commands()[1]
    assert (again["sampling"]["seed"], again["sampling"]["temperature"], again["max_tokens"]) == (7, 1.25, 7)


async def test_a_cut_reply_goes_on_from_its_own_tokens(begin, script):
    session = await ready(begin(script("length", "stop")))
    session.set_shape(YES)
    cut = await ask(session, "Is it?")
    session.set_shape(None)
    session.continue_reply(cut.id)
    await done(session)
    command = script.commands()[1]
    assert command["prefix"] == [0, 1, 2]
    assert (
        command["max_tokens"] == session.settings.max_tokens + 3
    )  # what is there takes nothing from what may come
    assert command["shape"]["text"] == YES.text
    assert session.path[-1].reply.continued_from == cut.id


async def test_a_landed_reply_goes_on_from_where_its_landing_began(begin, script, tmp_path):
    log = tmp_path / "commands"
    landing = [{"say": "ye"}, {"say": "s", "origin": "landed"}, {"end": "landed"}]
    session = await ready(begin({"turns": [landing, [{"log": str(log)}, {"say": "x"}, {"end": "stop"}]]}))
    cut = await ask(session, "Is it?")
    session.continue_reply(cut.id)
    await done(session)
    assert json.loads(log.read_text())["prefix"] == [0]


async def test_a_whole_reply_is_not_carried_on(begin, script):
    session = await ready(begin(script("stop")))
    reply = await ask(session, "Is it?")
    with pytest.raises(RefusedError, match="whole"):
        session.continue_reply(reply.id)


async def test_a_reply_is_forked_at_a_token(begin, script):
    session = await ready(begin(script("stop", "stop")))
    reply = await ask(session, "Is it?")
    session.fork(reply.id, 1, 42)
    await done(session)
    assert script.commands()[1]["prefix"] == [0, 42]
    with pytest.raises(RefusedError, match="no such token"):
        session.fork(reply.id, 4)


async def test_tokens_of_another_model_are_not_carried_on(begin, script):
    session = await ready(begin(script("length")))
    cut = await ask(session, "Is it?")
    ready_event = session.engine.ready
    session.engine.ready = replace(ready_event, model=replace(ready_event.model, vocabulary="other"))
    with pytest.raises(RefusedError, match="other tokens"):
        session.continue_reply(cut.id)


async def test_siblings_are_walked_and_their_paths_come_with_them(begin, script):
    session = await ready(begin(script("stop", "stop", "stop")))
    await ask(session, "one")
    await ask(session, "two")
    first = session.path[0].id
    session.edit(first, "other")
    await done(session)
    assert contents(session) == ["other", "yes"]
    assert session.show_sibling(session.path[0].id, -1)
    assert contents(session) == ["one", "yes", "two", "yes"]
    assert not session.show_sibling(first, -1)


async def test_a_branch_begins_where_the_person_went_back_to(begin, script):
    session = await ready(begin(script("stop", "stop", "stop")))
    first = await ask(session, "one")
    await ask(session, "two")
    session.go_back_to(first.id)
    await ask(session, "three")
    assert contents(session) == ["one", "yes", "three", "yes"]
    assert (session.path[2].sibling, session.path[2].siblings) == (2, 2)


async def test_what_was_thrown_away_comes_back(begin, script):
    session = await ready(begin(script("stop", "stop")))
    await ask(session, "one")
    await ask(session, "two")
    session.trash(session.path[2].id)
    assert contents(session) == ["one", "yes"]
    session.undo()
    assert contents(session) == ["one", "yes", "two", "yes"]
    with pytest.raises(RefusedError, match="Nothing"):
        session.undo()


async def test_the_tree_rests_while_a_reply_is_written(begin):
    session = await ready(begin({"turns": [[{"say": "Half"}, {"hold": True}]]}))
    session.send("one")
    for act in (
        lambda: session.trash(session.path[0].id),
        lambda: session.show_sibling(session.path[0].id, 1),
        lambda: session.go_back_to(session.path[0].id),
        lambda: session.edit(session.path[0].id, "x"),
    ):
        with pytest.raises(RefusedError, match="being written"):
            act()
    session.stop()
    await done(session)


async def test_another_try_that_is_refused_leaves_message_and_first_reply(begin, script):
    refused = [{"send": {"type": "failed", "kind": "shape", "message": "no", "turn": "$turn"}}]
    first = [{"say": "yes"}, {"end": "stop"}]
    session = await ready(begin({"turns": [first, refused]}))
    reply = await ask(session, "one")
    session.regenerate(reply.id)
    await done(session)
    assert contents(session) == ["one", "yes"]
    assert session.take_returned(session.chat.id) == ""
    assert session.trouble == "no"
