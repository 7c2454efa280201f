"""Formats as patterns, where llguidance's own would write texts that are no valid value.

llguidance 1.9 writes the 29th of February of any year, the year 0000, seconds of 60 and host names of any
length. The patterns here are the calendar's, so that whatever is written also passes the validator.
"""

from typing import Any

_LEAP = r"(?:0[48]|[2468][048]|[13579][26])"
_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])"
_DATE = (
    rf"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|(?:\d\d{_LEAP}|{_LEAP}00)-02-29)"
)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"

EXACT: dict[str, dict[str, Any]] = {
    "date": {"pattern": f"^{_DATE}$"},
    "time": {"pattern": f"^{_TIME}$"},
    "date-time": {"pattern": f"^{_DATE}T{_TIME}$"},
    "hostname": {"format": "hostname", "maxLength": 253},
    "json-pointer": {"pattern": r"^(?:/(?:[^~/]|~[01])*)*$"},
}
