"""From the messages of a chat to the token ids of a prompt.

Knows the model's chat template and vocabulary, nothing of chats on disk or of turns. Invariants: what
people, files and earlier replies say never becomes a control token, nor a user-defined token that the
template itself writes; where no content spells such a token the ids equal llama.cpp's own for the whole
rendered text; a reply given as ids is placed as these ids, so that the prompt begins with the prompt and
the reply of the turn before.

Method (see `engine.disguise`): contents are disguised so that nothing in them can be read as a special
token; the rendered text is cut at the special tokens that are left, which are the template's own; the
disguise is taken off, and the texts between are tokenized without special tokens.
"""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time
from typing import Literal, NoReturn, Protocol

import jinja2

from engine.disguise import Disguise, DisguiseError, Guard
from engine.markers import Start, find_markers
from engine.sandbox import Sandbox
from engine.specials import Special, partition

Role = Literal["system", "user", "assistant"]
_ROLES = ("system", "user", "assistant")
_SWITCHES = ("enable_thinking", "thinking")
"""What templates call the switch for reasoning."""
_LONGEST_MARKER = 24
_SURROGATES = re.compile("[\ud800-\udfff]")

_PLAIN = """\
{%- for message in messages -%}
{%- if message.role == 'system' -%}
{{ message.content }}{{ '\\n\\n' }}
{%- elif message.role == 'user' -%}
{{ 'User: ' }}{{ message.content }}{{ '\\n' }}
{%- else -%}
{{ 'Assistant:' }}{{ message.content }}{{ '\\n' }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ 'Assistant:' }}{%- endif -%}
"""
"""For base models: `User: …` and `Assistant:…` lines, the system text in front."""

_PLAIN_NOTICE = (
    "This model file has no chat template, so it is probably a base model; a plain one with the lines "
    "“User:” and “Assistant:” is used."
)
_MERGED_NOTICE = (
    "This model's chat template takes no system prompt; it was put in front of the first message."
)


class TemplateError(ValueError):
    """A chat that the template cannot render; the text is the template's own message where it has one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMessage:
    """One message. `tokens` are the ids of a reply that are to stand in the prompt as they are.

    `reasoning` is what came before a reply; it is shown where the template reads it.
    """

    role: Role
    content: str
    tokens: tuple[int, ...] = ()
    reasoning: str = ""

    def __post_init__(self) -> None:
        if self.role not in _ROLES:  # roles are written into control texts
            raise ValueError(f"a message has the role {self.role!r}; roles are {', '.join(_ROLES)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """The ids of a prompt, the opening of the next reply included, and sentences for the person.

    `start` is where the reply begins, by what the template writes as its opening alone.
    """

    ids: list[int]
    notices: tuple[str, ...] = ()
    start: Start = "outside"


class TemplateVocabulary(Protocol):
    """What a template needs of a vocabulary; see `engine.llama.vocabulary.LlamaVocabulary`."""

    @property
    def specials(self) -> tuple[Special, ...]: ...
    @property
    def adds_bos(self) -> bool: ...
    @property
    def bos_id(self) -> int | None: ...
    @property
    def bos_text(self) -> str: ...
    @property
    def eos_text(self) -> str: ...
    def tokenize(self, text: str) -> list[int]: ...
    def tokenize_fragment(self, text: str) -> list[int]: ...


class ChatTemplate:
    """A model's chat template; without a source a plain one, which `notice` says.

    `today` is the day templates are told, fixed here so that prompts stay the same past midnight. `render` reports a
    source that does not compile. `markers` are those of the model's reasoning, if it is known to reason.
    """

    def __init__(
        self, source: str | None, vocabulary: TemplateVocabulary, *, today: date | None = None
    ) -> None:
        self.notice = _PLAIN_NOTICE if source is None else None
        self.source = _PLAIN if source is None else source
        self.hash = hashlib.sha256(self.source.encode("utf-8", "replace")).hexdigest()
        self.markers = find_markers(self.source, vocabulary)
        self._vocabulary = vocabulary
        self._today = datetime.combine(today or date.today(), time())
        self._sandbox: Sandbox | None = None
        self._fault = ""
        try:
            self._sandbox = Sandbox(self.source)
        except Exception as error:  # whatever an untrusted source makes of jinja2's compiler
            self._fault = _describe(error)
        self._guard = Guard(self._guarded_specials(), taken=self.source)

    def render(self, messages: Sequence[PromptMessage], *, think: bool | None = None) -> Prompt:
        """Return the prompt that asks for the next reply; `think` is the template's own switch, None its default.

        Replies with `tokens` are placed as ids where the template writes their text once and unchanged, else
        as text. A system message that the template refuses or drops goes in front of the first user message,
        with a notice. Raises `TemplateError`.
        """
        clean = [
            replace(
                message,
                content=_SURROGATES.sub("\ufffd", message.content),
                reasoning=_SURROGATES.sub("\ufffd", message.reasoning),
            )
            for message in messages
        ]
        merged = _merge_system(clean)
        try:
            rendered = self._render(clean, think)
        except TemplateError:
            if merged is None:
                raise
            rendered = self._render(merged, think)
        else:
            if merged is None or not self._drops_system(clean, rendered, think):
                return self._prompt(rendered)
            rendered = self._render(merged, think)
        return replace(self._prompt(rendered), notices=(_MERGED_NOTICE,))

    def _prompt(self, rendered: "_Rendered") -> Prompt:
        start = "outside" if self.markers is None else self.markers.start(self._opening(rendered))
        return Prompt(ids=self._ids(rendered), start=start)

    def _opening(self, rendered: "_Rendered") -> str:
        """Return what the template writes for `add_generation_prompt`: what it writes without it taken off."""
        try:
            without = self._write(
                rendered.roles, rendered.contents, rendered.thoughts, rendered.think, ask=False
            )
        except TemplateError:
            return rendered.text[rendered.text.rfind(rendered.contents[-1].strip()) :]
        if rendered.text.startswith(without):
            return rendered.text[len(without) :]
        # Some templates end a text where they ask for no reply; the first difference may lie within a marker.
        pairs = enumerate(zip(without, rendered.text, strict=False))
        differs = next((place for place, (left, right) in pairs if left != right), len(rendered.text))
        return rendered.text[max(0, differs - _LONGEST_MARKER) :]

    def _render(self, messages: Sequence[PromptMessage], think: bool | None) -> "_Rendered":
        placed = {index for index, message in enumerate(messages) if message.tokens}
        try:
            disguise = self._guard.disguise(
                [text for message in messages for text in (message.content, message.reasoning)]
            )
            texts = [disguise.content(message.content) for message in messages]
            thoughts = [disguise.content(message.reasoning) for message in messages]
        except DisguiseError as error:
            raise TemplateError(str(error)) from error
        roles = [message.role for message in messages]
        while True:
            contents = [
                disguise.place(index) if index in placed else text for index, text in enumerate(texts)
            ]
            written = self._write(roles, contents, thoughts, think)
            moved = disguise.displaced(written, placed)
            if not moved:
                return _Rendered(
                    text=written,
                    disguise=disguise,
                    messages=messages,
                    roles=roles,
                    contents=contents,
                    thoughts=thoughts,
                    think=think,
                )
            placed -= moved

    def _drops_system(
        self, messages: Sequence[PromptMessage], rendered: "_Rendered", think: bool | None
    ) -> bool:
        """Tell whether the system message leaves no trace in the prompt."""
        if rendered.disguise.content(messages[0].content).strip() in rendered.text:
            return False
        try:
            return self._render(messages[1:], think).text == rendered.text
        except TemplateError:
            return False

    def _write(
        self,
        roles: Sequence[str],
        contents: Sequence[str],
        thoughts: Sequence[str] = (),
        think: bool | None = None,
        *,
        ask: bool = True,
    ) -> str:
        if self._sandbox is None:
            raise TemplateError(self._fault)
        messages = [
            {"role": role, "content": text} | ({"reasoning_content": thought} if thought else {})
            for role, text, thought in zip(roles, contents, thoughts or [""] * len(roles), strict=True)
        ]
        switch = {} if think is None else dict.fromkeys(_SWITCHES, think)
        # Hugging Face passes None for what is absent; templates made for tools iterate over it all the same.
        for absent in (None, []):
            try:
                return self._sandbox.render(
                    messages=messages,
                    add_generation_prompt=ask,
                    tools=absent,
                    documents=absent,
                    bos_token=self._vocabulary.bos_text,
                    eos_token=self._vocabulary.eos_text,
                    raise_exception=_raise_exception,
                    strftime_now=self._today.strftime,
                    **switch,
                )
            except Exception as error:  # an untrusted template may raise anything
                fault = error
                if not isinstance(error, TypeError):
                    break
        raise TemplateError(_describe(fault)) from fault

    def _ids(self, rendered: "_Rendered") -> list[int]:
        ids: list[int] = []
        fresh = True
        for segment in rendered.disguise.segments(rendered.text):
            if isinstance(segment, int):
                ids += rendered.messages[segment].tokens
                fresh = False
                continue
            for part in partition(segment, self._vocabulary.specials):
                if isinstance(part, int):
                    ids.append(part)
                    fresh = True
                    continue
                head, *rest = self._guard.broken(part, rendered.disguise)
                ids += self._vocabulary.tokenize_fragment(head) if fresh else self._vocabulary.tokenize(head)
                for text in rest:
                    ids += self._vocabulary.tokenize(text)
                fresh = False
        bos = self._vocabulary.bos_id
        if self._vocabulary.adds_bos and bos is not None:
            while ids[:1] == [bos]:
                del ids[0]
            ids.insert(0, bos)
        return ids

    def _guarded_specials(self) -> list[Special]:
        """Return the special tokens that contents must not become.

        All control tokens, and the user-defined ones that play a part in the template: named in its source,
        or put together by it from a role. Other user-defined tokens, Gemma's HTML tags say, are plain text.
        """
        written: set[str | int] = set()
        known = {special.text for special in self._vocabulary.specials}
        pair = () if self.markers is None else (self.markers.opener.text, self.markers.closer.text)
        for roles in (["user", "assistant", "user"], ["system", "user", "assistant", "user"]):
            try:
                written.update(partition(self._write(roles, ["x"] * len(roles)), self._vocabulary.specials))
            except TemplateError:
                continue  # it will be reported for the chat that is rendered
        guarded = [
            special
            for special in self._vocabulary.specials
            if special.control
            or (special.text.strip() and (special.text in self.source or special.id in written))
        ]
        # Templates cut contents at markers that are plain text, too.
        return guarded + [Special(id=-1, text=text, control=True) for text in pair if text not in known]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rendered:
    """What the template wrote, contents disguised and replies given as ids replaced by their places, and from what."""

    text: str
    disguise: "Disguise"
    messages: Sequence[PromptMessage]
    roles: Sequence[str]
    contents: Sequence[str]
    thoughts: Sequence[str]
    think: bool | None


def _merge_system(messages: Sequence[PromptMessage]) -> list[PromptMessage] | None:
    """Return the messages with the system text in front of the first user message, or None."""
    if len(messages) < 2 or messages[0].role != "system" or messages[1].role != "user":
        return None
    content = f"{messages[0].content}\n\n{messages[1].content}"
    return [replace(messages[1], content=content), *messages[2:]]


def _raise_exception(message: object) -> NoReturn:
    raise jinja2.TemplateError(str(message))


def _describe(error: Exception) -> str:
    if isinstance(error, jinja2.TemplateSyntaxError):
        return f"line {error.lineno}: {error.message}"
    if isinstance(error, jinja2.TemplateError):
        return error.message or type(error).__name__
    return f"{type(error).__name__}: {error}"
