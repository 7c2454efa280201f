"""Each setting in words: what it does and which values it takes, for the form and for the faults of the file.

Knows no values. Invariant: there is a line for every setting.
"""

from typing import NamedTuple


class Words(NamedTuple):
    """`what` a setting does, and the values that it `takes`, as the end of "it takes"."""

    what: str
    takes: str


_SWITCH = "true or false"
_TEXT = "a text"

WORDS: dict[str, Words] = {
    "temperature": Words("How freely a token is chosen; 0 takes the likeliest", "a number from 0 to 100"),
    "top_k": Words("Keep the K likeliest tokens", "a whole number from 0; 0 sets no limit"),
    "top_p": Words("Keep the likeliest tokens up to this probability", "a number above 0, at most 1"),
    "min_p": Words("Keep tokens this likely against the likeliest", "a number from 0 to 1"),
    "typical_p": Words(
        "Keep tokens of typical surprise up to this probability", "a number above 0, at most 1"
    ),
    "top_n_sigma": Words(
        "Keep tokens within so many standard deviations of the best", "a number from 0; 0 does nothing"
    ),
    "repeat_penalty": Words("Make tokens that came before less likely", "a number above 0; 1 does nothing"),
    "frequency_penalty": Words("The same, more so the more often they came", "a number; 0 does nothing"),
    "presence_penalty": Words("The same, however often they came", "a number; 0 does nothing"),
    "penalty_last_n": Words("How many tokens back the penalties look", "a whole number from 0"),
    "dry_multiplier": Words(
        "DRY: make what would go on with a repetition less likely", "a number from 0 to 1000; 0 does nothing"
    ),
    "dry_base": Words("DRY: how much more so with each token of it", "a number from 1 to 1000"),
    "dry_allowed_length": Words("DRY: the first length that counts", "a whole number from 1"),
    "dry_last_n": Words("DRY: how many tokens back it looks", "a whole number from 0"),
    "dry_breakers": Words(
        "DRY: nothing counts as repeated over a line break or these", "at most 100 characters"
    ),
    "seed": Words("Repeats a reply; without one each reply has its own", "a whole number from 0 to 2^63-1"),
    "max_tokens": Words("Longest reply, reasoning not counted", "a whole number from 1"),
    "stop": Words("Texts that end a free reply", "a list of texts, none of them empty"),
    "think": Words("Whether the model reasons first; without it as its template has it", _SWITCH),
    "think_tokens": Words("Longest reasoning", "a whole number from 0"),
    "land": Words("End a shaped reply properly within its length", _SWITCH),
    "stop_loops": Words("End a free reply that repeats itself", _SWITCH),
    "speculate": Words("Guess ahead", _SWITCH),
    "remember": Words("Guess from earlier replies under the same shape", _SWITCH),
    "system": Words("System prompt of new chats", _TEXT),
    "model": Words("The model that is loaded when none is named", "the path of a GGUF file"),
    "draft_model": Words("A smaller model that guesses ahead for it", "the path of a GGUF file"),
    "context": Words("Context in tokens; without it the model's, at most 8,192", "a whole number from 16"),
    "threads": Words("Threads; without it the physical cores", "a whole number from 1 to 512"),
    "gpu_layers": Words("Layers on the GPU; -1 means all", "a whole number from -1"),
    "numerics": Words(
        "exact replies repeat bit for bit, fast reads prompts quicker", '"auto", "exact" or "fast"'
    ),
    "model_folders": Words("Folders to look for models in", "a list of folders"),
    "shape_effort": Words(
        "How much work a shape may cost, times the usual; the engine hears of it with the next model",
        "a whole number from 1 to 100",
    ),
    "import_mb": Words("The longest file of chats that is read, in MiB", "a whole number from 1 to 65536"),
    "theme": Words("The colours", "the name of a theme"),
    "reduced_motion": Words("Nothing moves or blinks, and less is drawn", _SWITCH),
    "enter": Words("What Enter does while a message is written", '"send" or "newline"'),
}


def range_words(name: str) -> str:
    """Return the values that a setting takes."""
    return WORDS[name].takes
