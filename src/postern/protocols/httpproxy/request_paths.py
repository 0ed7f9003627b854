"""What a path can mean to servers, which decode and simplify it in different ways.

A path that every server reads alike has one reading. Any other has several, and says why it is ambiguous: rules about
paths then deny it, since it cannot be known what the application makes of it.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, unquote_to_bytes

_ESCAPE: Final = re.compile(r"%[0-9A-Fa-f]{2}")
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SLASHES: Final = re.compile(r"/{2,}")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f]")
_PARAMETERS: Final = re.compile(r";[^/]*")
_ENDS: Final = re.compile(r"[. ]+(?=/|$)")
_MOST_DECODINGS: Final = 4


@dataclass(frozen=True, slots=True)
class PathReadings:
    """All paths that a server can mean. `ambiguous` says why there are several; empty for one."""

    paths: tuple[str, ...]
    ambiguous: str = ""


def read_path(path: str) -> PathReadings:
    """Return the readings of a path without its query; each is decoded, without a slash at its end."""
    once = _decode(path)
    reason = _find_ambiguity(path, once)
    if not reason:
        return PathReadings((_trim(once),))
    readings: dict[str, None] = {}
    text = path
    for _ in range(_MOST_DECODINGS):
        for plain in (text, _PARAMETERS.sub("", text)):
            slashed = plain.replace("\\", "/")
            for each in (plain, slashed, _SLASHES.sub("/", slashed), _simplify(slashed), _ENDS.sub("", slashed)):
                readings[_trim(each)] = None
                readings[_trim(_simplify(_CONTROLS.sub("", each)))] = None
        decoded = _decode(text)
        if decoded == text:
            break
        text = decoded
    return PathReadings(tuple(readings), reason)


def _find_ambiguity(path: str, once: str) -> str:
    """Return why servers can read a path differently, or nothing."""
    checks = (
        (not path.startswith("/") and path != "*", "it does not begin with a slash"),
        (_BAD_ESCAPE.search(path) is not None, "it has an incomplete escape"),
        (_is_not_utf8(path), "it is not UTF-8"),
        (_CONTROLS.search(once) is not None, "it contains a control character"),
        ("%2f" in path.lower(), "it contains an encoded slash"),
        ("\\" in once, "it contains a backslash"),
        (_ESCAPE.search(once) is not None, "it is encoded twice"),
        ("//" in once, "it has an empty segment"),
        (any(part in (".", "..") for part in once.split("/")), "it has a dot segment"),
        (";" in once, "it has parameters in a segment"),
        (once != "/" and _ENDS.search(once) is not None, "a segment ends with a dot or a space"),
        ("?" in once or "#" in once, "it contains an encoded question mark or number sign"),
        (not once.isascii() and _has_other_form(once), "its characters have a different normal form"),
        (any(part.startswith("..") for part in once.split("/")), "a segment begins with two dots"),
    )
    return next((reason for is_so, reason in checks if is_so), "")


def _is_not_utf8(path: str) -> bool:
    try:
        unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


def _has_other_form(text: str) -> bool:
    """Return whether some server can take a character for a different one, such as the dotless i for an i."""
    others = [sign for sign in text if not sign.isascii()]
    return text != unicodedata.normalize("NFKC", text) or any(
        form.isascii() for sign in others for form in (sign.upper(), sign.lower(), sign.casefold())
    )


def _decode(text: str) -> str:
    return unquote(text, errors="replace")


def _simplify(path: str) -> str:
    """Return a path without empty and dot segments."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    return "/" + "/".join(parts)


def _trim(path: str) -> str:
    return path.rstrip("/") or "/"
