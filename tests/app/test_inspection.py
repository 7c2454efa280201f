"""Inspections: one question at a time, each asked once, none that outlives its model or a reply."""

import json
from types import SimpleNamespace

import pytest
import scripted_worker
from sessions import done, ready, until

from app.inspection import KEPT, Inspections, Place
from app.session import RefusedError
from engine.events import Exited, Failed, Inspected, ModelInfo, Ready
from engine.protocol import Cancel, Generate, Inspect, Message

TURN = Generate(turn=0, messages=(Message(role="user", content="one"),))
IDS = (5, 6, 7)


def inspections() -> tuple[Inspections, list]:
    sent: list = []
    return Inspections(SimpleNamespace(send=sent.append)), sent  # type: ignore[arg-type]


def inspected(turn: int) -> Inspected:
    return Inspected(turn=turn, alternatives=(), forced=False, allowed=1, masked=2, entropy=0.0)


def test_a_place_is_asked_once_with_the_tokens_before_it():
    asked, sent = inspections()
    place = Place(3, 1)
    asked.ask(place, TURN, IDS, "v")
    asked.ask(place, TURN, IDS, "v")
    (command,) = sent
    assert isinstance(command, Inspect)
    assert (command.generate.prefix, command.token, command.vocabulary) == ((5,), 6, "v")
    assert command.generate.turn < 0
    asked.hear(inspected(command.generate.turn))
    assert asked.waiting is None
    assert isinstance(asked.answer(place), Inspected)
    asked.ask(place, TURN, IDS, "v")
    assert len(sent) == 1


def test_another_question_gives_up_the_one_before_whose_answer_is_not_taken_for_its_own():
    asked, sent = inspections()
    asked.ask(Place(3, 0), TURN, IDS, "v")
    asked.ask(Place(3, 2), TURN, IDS, "v")
    first, cancel, second = sent
    assert isinstance(cancel, Cancel)
    asked.hear(Failed(kind="cancelled", message="stopped", turn=first.generate.turn))
    asked.hear(inspected(first.generate.turn))
    assert asked.waiting == Place(3, 2)
    asked.hear(inspected(second.generate.turn))
    assert asked.answer(Place(3, 0)) is None
    assert isinstance(asked.answer(Place(3, 2)), Inspected)


def test_what_failed_is_said_and_may_be_asked_again():
    asked, sent = inspections()
    place = Place(3, 0)
    for fault in (Failed(kind="usage", message="No.", turn=-1), Exited(message="Gone.", code=1)):
        asked.ask(place, TURN, IDS, "v")
        asked.hear(fault)
        assert asked.answer(place) == fault.message
        assert asked.waiting is None
    assert len(sent) == 2


def test_answers_do_not_outlive_their_model_and_their_number_is_bounded():
    asked, sent = inspections()
    for number in range(KEPT + 1):
        asked.ask(Place(number, 0), TURN, IDS, "v")
        asked.hear(inspected(sent[-1].generate.turn))
    assert asked.answer(Place(0, 0)) is None
    assert asked.answer(Place(KEPT, 0)) is not None
    asked.hear(
        Ready(
            model=ModelInfo(**scripted_worker.MODEL), context=8, threads=1, exact="fast", numerics_reason=""
        )
    )
    assert asked.answer(Place(KEPT, 0)) is None


async def test_a_place_of_an_old_reply_is_asked_as_its_turn_was_and_makes_way_for_a_reply(begin, tmp_path):
    log = tmp_path / "asked"
    steps = [{"log": str(log)}]
    turn = [{"say": "abcdef", "size": 2}, {"end": "stop"}]
    session = await ready(begin({"turns": [turn, turn], "inspect": steps}))
    session.send("one")
    await done(session)
    reply = session.path[1]
    session.set_system("changed since")
    with pytest.raises(RefusedError, match="no such token"):
        session.inspect(reply.id, 3)
    session.inspect(reply.id, 2)
    await until(lambda: log.exists() and log.read_text().endswith("\n"))
    command = json.loads(log.read_text())
    assert (command["generate"]["prefix"], command["token"]) == ([0, 1], 2)
    assert [message["content"] for message in command["generate"]["messages"]] == ["changed since", "one"]
    assert command["generate"]["max_tokens"] == reply.reply.options["max_tokens"]
    session.send("two")
    assert session.inspections.waiting is None
    with pytest.raises(RefusedError, match="being written"):
        session.inspect(reply.id, 2)
    await done(session)
