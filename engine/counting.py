"""How many tokens texts and a whole prompt have: said before a turn is asked for, without reading any of it.

Knows the vocabulary and the template of the loaded model. Nothing is put into the cache, so the next turn is the same
as if nothing had been counted.
"""

from engine.errors import TurnRefused
from engine.events import Counted, Failed
from engine.protocol import Count
from engine.turn import Engine


def count(engine: Engine, request: Count) -> Counted | Failed:
    """Return the tokens of each text, and those of the prompt that the messages make if there are any."""
    try:
        prompt = len(engine.render(request.messages, think=request.think).ids) if request.messages else None
    except TurnRefused as refusal:
        return Failed(kind=refusal.kind, message=str(refusal), turn=request.turn)
    texts = tuple(len(engine.vocabulary.tokenize(text)) for text in request.texts)
    return Counted(turn=request.turn, prompt=prompt, texts=texts)
