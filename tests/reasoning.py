"""Reasoning models without weights: templates of our own and llama.cpp's, and a fake model that follows a script."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from engine.drafting.cost import CostModel, Gate
from engine.drafting.drafts import Drafts
from engine.events import Event, Finished, Token, Tokens
from engine.fake import FakeContext, FakeVocabulary, fake_engine
from engine.protocol import Generate, Message, Sampling
from engine.turn import Engine
from grammars.spec import GrammarSpec

WORDS = ("<th", "ink", ">", "</", "think", ">\n", ">\n\n", ">x", "k>yes", "</think>no", "\n", " ", "\n\n\n")
"""Pieces in which a vocabulary without special markers may spell them, some of which run over the border."""

MARKERS = ("<think>", "</think>")

ASKED = (
    "{% for message in messages %}<|user|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
TEMPLATES = {
    "model opens": ASKED + "{# </think> #}",
    "template opens": ASKED + "{% if add_generation_prompt %}<think>\n{% endif %}{# </think> #}",
    "empty": ASKED + "{% if add_generation_prompt %}<think>\n\n</think>\n\n{% endif %}",
    "closed at once": ASKED + "{% if add_generation_prompt %}<think>\n</think>{% endif %}",
}

SHAPES: dict[str, GrammarSpec | None] = {
    "free": None,
    "schema": GrammarSpec(
        kind="json_schema",
        text='{"type":"object","properties":{"mood":{"enum":["calm","tense"]},"why":{"type":"string","maxLength":9}},'
        '"required":["mood","why"],"additionalProperties":false}',
    ),
    "regex": GrammarSpec(kind="regex", text=r"[ \n]?(yes|no): [a-z]{2,9}, 20[0-9]{2}"),
    "lark": GrammarSpec(kind="lark", text='start: "<think" X ">"\nX: /[a-z ]{1,4}/'),
    "choice": GrammarSpec(kind="choice", text='["car", "cart", "the city 😀", " yes"]'),
}


def vocabulary(*, special: bool) -> FakeVocabulary:
    """Return a vocabulary whose markers are control tokens, or one that has to spell them."""
    return FakeVocabulary(WORDS, MARKERS) if special else FakeVocabulary(WORDS)


class Scripted(FakeContext):
    """A fake model that wants to write `script` behind a prompt of `prompt` tokens, and is random once it did not."""

    script: tuple[int, ...] = ()
    prompt = 0
    pull = 60.0

    def decode(self, tokens: Sequence[int], wanted: Sequence[int]) -> Any:
        """Return the rows, the scripted token in front."""
        start = len(self.tokens)
        rows = super().decode(tokens, wanted)
        for row, index in zip(rows, wanted, strict=True):
            written = self.tokens[self.prompt : start + index + 1]
            if written == list(self.script[: len(written)]) and len(written) < len(self.script):
                row[self.script[len(written)]] += np.float32(self.pull)
        return rows

    def twin(self, length: int) -> "Scripted":
        """Return an empty context that follows the same script."""
        twin = Scripted(self._vocab_size, length=length, batch=self.batch, spread=float(self._spread))
        twin.script, twin.prompt, twin.pull = self.script, self.prompt, self.pull
        return twin


def engine(
    template: str, *, special: bool, script: Sequence[str] = (), spread: float = 3.0, length: int = 4096
) -> Engine:
    """Return an engine with a template of `TEMPLATES` or a source; `script` are texts, each written with its tokens."""
    words = vocabulary(special=special)
    made = fake_engine(
        vocabulary=words, template=TEMPLATES.get(template, template), spread=spread, length=length
    )
    context = Scripted(words.size, spread=spread, length=length)
    context.script = tuple(spell(words, *script))
    made.context = context
    made.drafts = Drafts(words.size)
    made.drafts.gate = Gate(CostModel(fixed=1, row=0.001, logit_row=0.001, learning=False))
    return made


def spell(words: FakeVocabulary, *texts: str) -> list[int]:
    """Return the ids of texts; a text that is a control token's is that token."""
    controls = {special.text: special.id for special in words.specials}
    ids: list[int] = []
    for text in texts:
        ids += [controls[text]] if text in controls else words.tokenize(text)
    return ids


def request(shape: GrammarSpec | None = None, *, seed: int = 1, **options: Any) -> Generate:
    """Return a request for one reply."""
    options = {"max_tokens": 60, "think_tokens": 40} | options
    return Generate(
        turn=1,
        messages=(Message(role="user", content="Say </think> <think> twice."),),
        shape=shape,
        sampling=Sampling(seed=seed, temperature=options.pop("temperature", 0.8)),
        **options,
    )


def run(made: Engine, generate: Generate) -> tuple[Finished, list[Token]]:
    """Run a turn; return its end and its tokens, after checking that what was streamed adds up."""
    if isinstance(made.context, Scripted):
        made.context.prompt = len(made.prompt(generate.messages, think=generate.think).ids)
    return account(list(made.generate(generate)))


def account(events: Sequence[Event]) -> tuple[Finished, list[Token]]:
    """Return the end of a turn and its tokens; the parts must add up to the whole."""
    end = events[-1]
    assert isinstance(end, Finished), end
    rounds = [event for event in events if isinstance(event, Tokens)]
    tokens = [token for event in rounds for token in event.tokens]
    assert "".join(event.text for event in rounds) == end.text
    assert "".join(event.reasoning for event in rounds) == (end.reasoning or "")
    if end.finish != "stop_text":
        assert tuple(token.id for token in tokens if token.part == "reply") == end.tokens
    return end, tokens
