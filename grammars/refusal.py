"""Turn what llguidance says about a refused grammar into one sentence for a person, and a position.

Knows the wording of llguidance 1.9 and nothing else; of a message it does not know the first line is
passed on.
"""

import re

TOO_LARGE = "too large or too complex to be enforced"
UNCOUNTED = "minProperties and maxProperties count only where every named member is required"

# What llguidance says, and what a person is told.
_SENTENCES = (
    (
        r"Unsatisfiable schema: anyOf is empty",
        "nothing fits: there is no alternative (empty enum, type or anyOf)",
    ),
    (
        r"Unsatisfiable schema: Regex is empty.*",
        "nothing fits: const, enum, pattern and length leave no text",
    ),
    (
        r"Unsatisfiable schema: range \[.*\] does not contain a multiple of (.*)",
        r"nothing fits: there is no multiple of \1 between the bounds",
    ),
    (
        r"Unsatisfiable schema: required > maxProperties",
        "nothing fits: more members are required than maxProperties allows",
    ),
    (
        r"Unsatisfiable schema: (required property .*) is unsatisfiable",
        r"nothing fits: the \1 is never allowed",
    ),
    (r"Unsatisfiable schema: (.*)", r"nothing fits: \1"),
    (r"Unable to determine if regex is empty.*", "the patterns are too complex to be joined"),
    (r"Resource '(.*?)' is not present.*", r"the $ref \1 is remote and never fetched: copy it into $defs"),
    (r"Pointer '(.*)' does not exist", r"the $ref #\1 leads nowhere"),
    (
        r"oneOf constraints are not supported.*",
        "the branches of oneOf may overlap: use anyOf, or tell them apart",
    ),
    (
        r"Unknown format: (.*)",
        r"the format \1 cannot be enforced; "
        "date-time, time, date, duration, email, hostname, ipv4, ipv6, uuid and uri can",
    ),
    (r"Expected (?:f64|u64|usize) for '(\w+)', got (.*)", r"\1 is a number, not \2"),
    (
        r"Failed to generate regex for (?:integer|float) range.*",
        "the bounds have too many digits: stay within ±999999999999999",
    ),
    (r"Value for 'multipleOf' has too many digits.*", "multipleOf has too many digits: 10 at most"),
    (
        r"circular references with sibling keys.*",
        "a part that refers to itself cannot be joined with others there",
    ),
    (r"invalid multiple of", "multipleOf must be above zero"),
    (r"min/maxProperties only supported.*", UNCOUNTED),
    (r"patternProperty regexes (.*) and (.*) are not disjoint", r"a key may match both \1 and \2"),
    (r"(broken regular expression: )?lookarounds not.*", r"\1an anchor inside or a `\\b` cannot be enforced"),
    (r"lexer error", "not understood from here on"),
)


def explain(message: str, source: str) -> tuple[str, str]:
    """Turn an error of llguidance into one sentence and a position in `source` (empty for JSON)."""
    message = message.removeprefix("WARNING: ")
    if "NoExtension" in message:
        return "no reply fits: it allows nothing, or refers to itself without an end", ""
    if message.startswith("panic"):
        return "too complex to be enforced", ""
    if "too many digits" in message:
        return _sentence(message), ""
    for mark in ("fuel", "TooComplex", "too many", "too large", "limit"):
        if mark in message.split("\n", 1)[0]:
            return f"{TOO_LARGE} ({_sentence(message)})", ""
    where = ""
    if place := re.match(r"(?:at )?(\d+)\((\d+)\): ", message):
        message = message[place.end() :]
        where = _characters(source, int(place[1]), int(place[2]))
    message = re.split(r"\n +\d+ \| ", message)[0]  # the excerpt of the grammar
    if match := re.match(r"Unimplemented keys: \[(.*)\]", message):
        keywords = re.findall(r"[$\w]+", match[1])
        return f"{_listed(keywords)} cannot be enforced here", where
    if broken := re.search(r"regex parse error:\n(?P<excerpt>.*)\nerror: (?P<why>.*)", message, re.DOTALL):
        return f"broken regular expression: {broken['why'].strip().splitlines()[0]}", where
    message = re.sub(
        r"invalid regex .* \(in regex\): ", "broken regular expression: ", message, flags=re.DOTALL
    )
    return _sentence(message), where


def _listed(keywords: list[str]) -> str:
    return " and ".join([", ".join(keywords[:-1]), keywords[-1]] if keywords[1:] else keywords)


def _sentence(message: str) -> str:
    line = message.strip().split("\n", 1)[0]
    for pattern, sentence in _SENTENCES:
        if match := re.fullmatch(pattern, line):
            line = match.expand(sentence)
            break
    return line if len(line) <= 300 else line[:299] + "…"


def _characters(source: str, line: int, column: int) -> str:
    """Return a position counted in bytes as `line:column` in characters."""
    lines = source.split("\n")
    if line <= len(lines):
        column = len(lines[line - 1].encode()[: column - 1].decode(errors="ignore")) + 1
    return f"{line}:{column}"
