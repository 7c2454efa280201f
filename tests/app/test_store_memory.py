"""Earlier replies under a shape, for the engine to guess from."""

from pathlib import Path

from app.store.store import Store
from engine.events import Finished, Stats
from engine.protocol import Sampling
from grammars.spec import GrammarSpec

SHAPE = GrammarSpec(kind="choice", text='["a", "b"]', name="letters")
SAME = GrammarSpec(kind="choice", text='["a","b"]')
OTHER = GrammarSpec(kind="regex", text="c")


def reply(store: Store, chat: int, shape: GrammarSpec | None, text: str, finish: str = "stop") -> int:
    user = store.add_user(chat, None, "?")
    number = store.begin_reply(chat, user, shape=shape, sampling=Sampling())
    end = Finished(turn=1, finish=finish, text=text, tokens=(), seed=1, stats=Stats())  # type: ignore[arg-type]
    store.finish_reply(number, end, valid=True, trace=())
    return number


def test_finished_replies_of_the_same_language_come_back_oldest_first(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite3") as store:
        first, second, trashed = store.create_chat(), store.create_chat(), store.create_chat()
        reply(store, first, SHAPE, "one")
        reply(store, second, SAME, "two")
        reply(store, second, OTHER, "another shape")
        reply(store, second, None, "free")
        reply(store, second, SHAPE, "cut", finish="length")
        reply(store, trashed, SHAPE, "thrown away")
        store.trash_message(reply(store, first, SHAPE, "taken back"))
        store.trash_chat(trashed)
        assert store.earlier_replies(SHAPE) == ("one", "two")


def test_the_newest_are_kept_within_the_bound(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite3") as store:
        chat = store.create_chat()
        for text in ("öööö", "bbb", "cc"):
            reply(store, chat, SHAPE, text)
        assert store.earlier_replies(SHAPE, most=12) == ("bbb", "cc")
        assert store.earlier_replies(SHAPE, most=13) == ("öööö", "bbb", "cc")
        assert store.earlier_replies(SHAPE, most=1) == ()
