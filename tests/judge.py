"""Judges of another make than the engine: jsonschema with formats, `re`, and the package lark."""

import json
import re
from functools import cache

import jsonschema
import lark

from grammars.presets import Preset, presets


@cache
def lark_parser(name: str) -> lark.Lark:
    text = presets()[name].lark
    assert text is not None
    return lark.Lark(text, parser="earley")


def judge(preset: Preset, reply: str) -> None:
    """Fail unless a reply is one of the preset's."""
    if isinstance(preset.json_schema, dict):
        validator = jsonschema.Draft202012Validator
        validator(preset.json_schema, format_checker=validator.FORMAT_CHECKER).validate(json.loads(reply))
        assert list(json.loads(reply)) == list(preset.json_schema["properties"])
    elif preset.regex is not None:
        assert re.fullmatch(preset.regex, reply)
    elif preset.choices is not None:
        assert reply in preset.choices
    else:
        lark_parser(preset.name).parse(reply)
