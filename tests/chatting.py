"""Helpers for tests of what is kept: a model, tokens, shapes, and a chat with a bit of everything."""

from dataclasses import replace

from app.store import Attachment, Store
from engine.events import Finished, ModelInfo, Stats, Token
from engine.protocol import Sampling
from grammars.spec import GrammarSpec, Guards

MODEL = ModelInfo(
    name="Tiny",
    path="/home/ann/models/tiny.gguf",
    architecture="llama",
    parameters=1_000,
    quantization="Q8_0",
    vocab_size=300,
    context_length=512,
    size_bytes=4_096,
    fingerprint="model-1",
    vocabulary="vocabulary-1",
    template_hash="template-1",
    has_template=True,
)
CITY = GrammarSpec(
    kind="json_schema",
    text='{"type": "object", "properties": {"zip": {"type": "string"}, "age": {"type": "integer"}}}',
    whitespace="spaced",
    guards=Guards(digits=5, string=None),
    name="city",
)
YES_NO = GrammarSpec(kind="choice", text='["yes", "no"]')


def tokens(text: str, *, start: int = 0) -> list[Token]:
    """Return one token a character, forced and sampled in turn."""
    return [
        Token(id=start + i, text=c, origin="forced" if i % 2 else "sampled", allowed=None if i % 2 else 7)
        for i, c in enumerate(text)
    ]


def finished(text: str, **changes: object) -> Finished:
    """Return the engine's account of a reply of one token a character."""
    values: dict = {
        "turn": 1,
        "finish": "stop",
        "text": text,
        "tokens": tuple(t.id for t in tokens(text)),
        "seed": 11,
        "stats": Stats(reply_tokens=len(text), exact="exact", sources={"suffix": {"accepted": 2.0}}),
    }
    return Finished(**(values | changes))


def reply(store: Store, chat: int, parent: int, text: str, *, shape: GrammarSpec | None = None) -> int:
    """Add a finished reply."""
    number = store.begin_reply(chat, parent, shape=shape, sampling=Sampling(), model=MODEL)
    store.finish_reply(number, finished(text), valid=True if shape else None, trace=tokens(text))
    return number


def rich_chat(store: Store) -> int:
    """Add a chat with two branches, two spellings of a shape, a trashed branch and a cut reply carried on."""
    chat = store.create_chat(title="Rome \x1b[31m\u202e", system="Answer\0briefly.")
    store.set_settings(chat, {"temperature": 0.5, "stop": ["a", None]})
    first = store.add_user(chat, None, "Which city? 🌆\0", shape=CITY)
    reply(store, chat, first, '{"zip":"1","age":2}', shape=CITY)
    spelling = CITY.text.replace(" ", "")
    other = replace(CITY, text=spelling, name="town")
    cut = store.begin_reply(
        chat, first, shape=other, sampling=Sampling(logit_bias={5: -1.5}), seed=3, options={"max_tokens": 9}
    )
    store.finish_reply(cut, finished('{"zip', finish="length", tokens=()), valid=False, trace=tokens('{"zip'))
    carried = store.begin_reply(
        chat, first, shape=other, sampling=Sampling(), model=MODEL, continued_from=cut
    )
    store.finish_reply(carried, finished("{}", reasoning="hm"), valid=True, trace=tokens("{}"))
    store.add_user(chat, carried, "and this?", attachments=[Attachment(name="a.txt", content="\x07text")])
    store.trash_message(store.add_user(chat, None, "thrown away"))
    store.set_leaf(chat, carried)
    store.set_draft(chat, "not yet sent")
    store.set_shape(chat, YES_NO, on=False, shown=True)
    return chat
