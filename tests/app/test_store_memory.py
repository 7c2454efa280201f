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


def test_replies_under_a_shape_are_found_across_chats_the_newest_first(tmp_path: Path) -> None:
    with Store(tmp_path / "store.sqlite3") as store:
        assert store.last_used(SHAPE.hash) is None
        first, second, gone = store.create_chat(), store.create_chat(), store.create_chat()
        cut = reply(store, first, SHAPE, "one", finish="length")
        whole = reply(store, second, SAME, "two")
        reply(store, second, OTHER, "another shape")
        reply(store, second, None, "free")
        store.trash_message(reply(store, first, SHAPE, "taken back"))
        last = reply(store, gone, SHAPE, "thrown away")
        store.trash_chat(gone)
        store.begin_reply(first, cut, shape=OTHER, sampling=Sampling())
        assert [message.id for message in store.replies_under_shape(SHAPE.hash)] == [whole, cut]
        assert [message.content for message in store.replies_under_shape(OTHER.hash)] == ["another shape"]
        assert store.last_used(SHAPE.hash) == store.message(last).created_at
        assert store.replies_under_shape("0" * 64) == []
