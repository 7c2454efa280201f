"""The X-ray by keys, over a scripted engine: places are inspected, replies are written anew from an alternative."""

import json
from dataclasses import replace

from pilots import answered, loaded, pick, sees, session, until, write

from app.tui.screens.chat import ChatScreen
from app.tui.screens.xray import XrayScreen
from app.tui.widgets.token_lane import TokenLane
from engine.events import Finished, Stats, Token
from engine.protocol import Sampling


def alternative(number: int, text: str, probability: float, *, legal: bool) -> dict:
    share = probability if legal else 0.0
    return {"id": number, "text": text, "probability": probability, "rank": 1, "legal": legal, "share": share}


INSPECTED = {
    "send": {
        "type": "inspected",
        "turn": "$turn",
        "alternatives": [
            alternative(7, " [/x] \x1b", 0.75, legal=False),
            alternative(8, "no", 0.25, legal=True),
            alternative(1, "yes", 0.0, legal=True),
        ],
        "forced": False,
        "allowed": 2,
        "masked": 998,
        "entropy": 0.81,
    }
}


def asked(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


async def open_xray(pilot) -> TokenLane:
    await pilot.press("f9")
    await until(pilot, lambda: isinstance(pilot.app.screen, XrayScreen))
    lane = pilot.app.screen.query_one(TokenLane)
    await until(pilot, lambda: lane.tokens)
    return lane


async def test_a_reply_that_is_being_written_is_looked_at_from_its_message(open_app):
    async with open_app({"turns": [[{"say": "yes!"}, {"hold": True}]]}, size=(130, 40)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await sees(pilot, "yes!")
        await pilot.press("ctrl+up", "x")
        await until(pilot, lambda: isinstance(pilot.app.screen, XrayScreen))
        await until(pilot, lambda: pilot.app.screen.query_one(TokenLane).tokens)


async def test_enter_opens_the_alternatives_as_soon_as_they_are_computed(open_app):
    turn = [{"say": '"yes', "origin": "forced"}, {"say": "yes!"}, {"end": "stop"}]
    async with open_app({"turns": [turn], "inspect": [INSPECTED]}, size=(40, 15)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        lane = await open_xray(pilot)
        await pilot.press("enter")
        await sees(pilot, "Enter begins anew from a token.")
        await sees(pilot, '25.00%  "no"')  # also where there is little room
        await until(pilot, lambda: pilot.app.focused is pilot.app.screen.query_one(".alternatives"))
        await pilot.press("escape")
        await until(pilot, lambda: pilot.app.focused is lane)
        await pilot.pause(0.3)  # what is drawn again later does not open them again
        assert pilot.app.focused is lane


async def test_a_free_choice_is_inspected_and_the_reply_is_written_anew_from_an_alternative(
    open_app, tmp_path
):
    log = tmp_path / "asked"
    first = [{"say": '"yes', "origin": "forced"}, {"say": "yes!"}, {"end": "stop"}]
    second = [{"log": str(log)}, {"say": "no!"}, {"end": "stop"}]
    script = {"turns": [first, second], "inspect": [{"log": str(log)}, INSPECTED]}
    async with open_app(script, size=(130, 40)) as pilot:
        await loaded(pilot)
        await pick(pilot, "city")
        await write(pilot, "one")
        await answered(pilot, 2)
        await pilot.press("ctrl+up", "x")
        await until(pilot, lambda: isinstance(pilot.app.screen, XrayScreen))
        await sees(pilot, "Forced: nothing else was allowed.")
        await sees(pilot, "W computes what the model wanted.")
        assert asked(log) == []  # a forced place is not computed unasked
        await pilot.press("n")
        await sees(pilot, 'Wanted, but forbidden: " [/x] \\u001b" 75.00%')
        await sees(pilot, "2 legal, 998 masked (99.80%)")
        (inspection,) = asked(log)
        assert inspection["generate"]["prefix"] == [0]
        assert (inspection["token"], inspection["vocabulary"]) == (1, "v1")
        assert inspection["generate"]["shape"]["name"] == "city"
        await pilot.press("enter", "up", "enter")
        await sees(pilot, "This token is forbidden here")
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))
        await answered(pilot, 2)
        await sees(pilot, "2/2")
        assert asked(log)[-1]["prefix"] == [0, 8]
        assert session(pilot).path[1].reply.continued_from is not None
        assert session(pilot).path[1].shape.name == "city"


async def test_what_the_model_wanted_at_a_forced_token_is_computed_on_demand(open_app, tmp_path):
    log = tmp_path / "asked"
    forced = {"send": INSPECTED["send"] | {"forced": True, "allowed": 1, "masked": 999}}
    script = {
        "turns": [[{"say": "yes!", "origin": "forced"}, {"end": "stop"}]],
        "inspect": [{"log": str(log)}, forced],
    }
    async with open_app(script, size=(80, 24)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await answered(pilot, 2)
        await open_xray(pilot)
        await pilot.press("w")
        await sees(pilot, 'Wanted, but forbidden: " [/x]')
        await pilot.press("w")
        assert len(asked(log)) == 1  # what is known is not asked again
        await pilot.press("enter", "escape")
        assert isinstance(pilot.app.screen, XrayScreen)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(pilot.app.screen, ChatScreen))


async def test_a_reply_is_looked_at_while_it_grows(open_app):
    script = {
        "turns": [[{"say": "abcdefgh"}, {"hold": True}]],
        "inspect": [INSPECTED],
    }
    async with open_app(script, size=(130, 40)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await until(pilot, lambda: session(pilot).live and session(pilot).live.tokens)
        lane = await open_xray(pilot)
        await until(pilot, lambda: len(lane.tokens) == 2)
        await until(pilot, lambda: lane.cursor == 1)
        await sees(pilot, "More when the reply has ended.")
        await pilot.press("w")
        await sees(pilot, "More when the reply has ended.")
        session(pilot).stop()
        await sees(pilot, "Wanted, but forbidden")
        assert "".join(token.text for token in lane.tokens) == "abcdefgh"


async def test_a_reply_of_another_vocabulary_shows_its_tokens_and_says_why_no_more(open_app, store):
    chat = store.create_chat(title="old")
    user = store.add_user(chat, None, "one")
    async with open_app({}) as pilot:
        await loaded(pilot)
        model = replace(session(pilot).engine.ready.model, vocabulary="v0")
        reply = store.begin_reply(
            chat, user, shape=None, sampling=Sampling(), seed=1, model=model, options={}, continued_from=None
        )
        trace = [
            Token(id=n, text=text, origin="sampled")
            for n, text in enumerate(("a\u202e", "\u200d", "漢", "\n"))
        ]
        end = Finished(turn=1, finish="stop", text="x", tokens=(0, 1, 2, 3), seed=1, stats=Stats())
        store.finish_reply(reply, end, valid=None, trace=trace)
        session(pilot).open(chat)
        await open_xray(pilot)
        await sees(pilot, "a\\u202e◌漢⏎")
        await sees(pilot, "The loaded model has other tokens")
        await pilot.press("end")
        await sees(pilot, "Token 4 of 4, reply")


async def test_a_long_reply_is_walked_on_a_small_screen(open_app):
    script = {"turns": [[{"say": "{word} \n" * 2500, "size": 8}, {"end": "stop"}]], "inspect": [INSPECTED]}
    async with open_app(script, size=(40, 15)) as pilot:
        await loaded(pilot)
        await write(pilot, "one")
        await until(pilot, lambda: session(pilot).live and session(pilot).live.phase == "done")
        lane = await open_xray(pilot)
        await pilot.press("end")
        await sees(pilot, "Token 2,500 of 2,500, reply")
        await pilot.press("up", "up", "left", "home", "down")
        assert lane.cursor == 1
        await sees(pilot, "{word}·⏎")
        await pilot.press("pagedown", "pageup", "f", "N")
        assert lane.cursor == 0
