"""Masking of errors, notices and settings, if rules about columns are active.

An error quotes the value that caused it, and no detector recognises a surname. Everything that a message quotes is
therefore withheld, and so are numbers and the text after a colon. Names that the target gives in fields of their own
stay. Words of the statement and names of tables stay only if the statement reads no rows (see `statement_facts`). A
message with a position in the statement was written before any row was read, and stays unchanged.

Code in the target (functions, triggers, DO) writes messages of its own, with any content: a statement can choose each
field, and which fields there are. A strict rule withholds all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from postern.domain.targets.target_schema import TargetSchema

MASK: Final = b"****"
Known = Callable[[bytes], bool]

_LONGEST: Final = 4096  # bytes of a text; longer texts are withheld
_LONGEST_STATEMENT: Final = 64 * 1024  # characters of a statement that are searched
_LOOKS: Final = 64  # searches in a statement, per message

# Values of a row that an error quotes: `Key (email)=(…) already exists.`, `Failing row contains (…).`
_ROW: Final = re.compile(rb"(?<==\().*(?=\))|(?<= \().*(?=\)\.$)", re.DOTALL)
# Quotes in all languages of the server's messages, in UTF-8 and as single bytes.
_OPENING = rb"\"|`|\xc2\xab|\xc2\xbb|\xe2\x80[\x98-\x9f]|(?<![\xc2\xc3])[\xab\xbb]|(?<![A-Za-z0-9\x80-\xff])'"
_CLOSING = rb"\"|`|'|\xc2\xab|\xc2\xbb|\xe2\x80[\x98-\x9f]|(?<![\xc2\xc3])[\xab\xbb]"
_QUOTED: Final = re.compile(rb"(?:%b)(.*?)(?:%b)" % (_OPENING, _CLOSING), re.DOTALL)
_ALL_QUOTED: Final = re.compile(rb"(?P<from>%b)(?P<all>.*)(?P<to>%b)" % (_OPENING, _CLOSING), re.DOTALL)
_NUMBER: Final = re.compile(rb"(?<![A-Za-z0-9_.\x80-\xff*])(?<![A-Za-z]\()0?[0-9](?:x[0-9a-f]+|[0-9.,:/+-]*[0-9])?")
_BEHIND: Final = re.compile(rb": .*")
_UNQUOTED: Final = re.compile(rb"(?<= exist: ).*", re.DOTALL)  # operator does not exist: …
# Contexts of errors in the server itself, and not in code of the target.
_OWN_CONTEXT: Final = re.compile(rb"(?:COPY |unnamed portal |portal \").*")

# Replacements for a message from code in the target.
_SEVERITY: Final = "severity"
_ERROR_CODE: Final = b"P0001"  # raise_exception, RAISE's own
_NOTICE_CODE: Final = b"00000"
SIGNAL_NUMBER: Final = b"1644"  # ER_SIGNAL_EXCEPTION
_SIGNAL_CODE: Final = b"45000"
_WORDS: Final = re.compile(rb"[0-9A-Za-z\x80-\xff]")

_FREE_TEXT: Final = frozenset({"message", "detail", "hint"})
_NAMES: Final = frozenset({"schema", "table", "column", "type", "constraint"})

# Settings whose values the target chooses from a few.
_SETTINGS: Final = frozenset(
    {
        "client_encoding",
        "DateStyle",
        "default_transaction_read_only",
        "in_hot_standby",
        "integer_datetimes",
        "IntervalStyle",
        "is_superuser",
        "scram_iterations",
        "server_encoding",
        "server_version",
        "session_authorization",
        "standard_conforming_strings",
    }
)
_ZONE: Final = re.compile(rb"[A-Za-z_]+(?:/[A-Za-z_-]+)*")  # no other form is a time zone without digits


def nothing_known(segment: bytes) -> bool:
    """Return `Known` for a message of a statement that reads rows."""
    return not segment


def make_known_check(
    statement: str | None, schema: TargetSchema | None, phrases: frozenset[bytes] = frozenset()
) -> Known:
    """Return a function that tells whether a text is the client's own, one of the phrases, or the name of a table or
    column."""
    statement_text = (statement or "")[:_LONGEST_STATEMENT].lower()
    remaining = _LOOKS

    def is_known(segment: bytes) -> bool:
        nonlocal remaining
        if segment in phrases:
            return True
        text = segment.decode("utf-8", "replace").lower()
        if not text:
            return True
        remaining -= 1
        if remaining < 0:
            return False
        if re.search(rf"(?<![^\W_]){re.escape(text)}(?![^\W_])", statement_text):
            return True
        return schema is not None and text in _names(schema)

    return is_known


@lru_cache(maxsize=4)
def _names(schema: TargetSchema) -> frozenset[str]:
    names: set[str] = set()
    for relation in schema.relations.values():
        names.update((relation.name.lower(), relation.schema.lower()))
        names.update(column.lower() for column in relation.columns)
    return frozenset(names)


SIGNAL: Final[Mapping[str, bytes]] = {"errno": SIGNAL_NUMBER, "code": _SIGNAL_CODE}


def mask_own_words(labels: Sequence[str], fields: Mapping[str, bytes] = SIGNAL) -> list[bytes]:
    """Return the replacement of a message that can be user-written. `fields` are those that cannot be a text of any
    kind, by their labels; the default is that of SIGNAL."""
    return [fields.get(label, MASK) for label in labels]


def withhold_values(
    texts: Sequence[bytes],
    labels: Sequence[str],
    is_known: Known,
    *,
    strict: bool,
    is_error: bool = True,
    code: re.Pattern[bytes] | None = None,
    quotes_values: bool = True,
) -> list[bytes]:
    """Return a message without the values that it quotes.

    `labels` say what each text is. `strict` withholds everything from code of the target. An empty text is a field that
    is left out. `code` is what messages begin with; all behind it is withheld if the message `quotes_values`.
    """
    parts = dict(zip(labels, texts, strict=True)) if labels else {}
    inside = "query" in parts or not all(
        _OWN_CONTEXT.fullmatch(line) for line in parts.get("context", b"").split(b"\n") if line
    )
    if "position" in parts and not inside:
        return list(texts)
    names = frozenset() if inside else frozenset(parts[name] for name in _NAMES & parts.keys())

    def may_stay(segment: bytes) -> bool:
        return segment in names or is_known(segment)

    if not labels:
        return [_without(text, may_stay) for text in texts]
    if inside and strict:
        return [_fix_field(text, label, is_error=is_error) for text, label in zip(texts, labels, strict=True)]
    parted: list[bytes] = []
    for text, label in zip(texts, labels, strict=True):
        start = code.match(text) if code is not None and label == "message" else None
        if start is None:
            parted.append(_part(text, label, may_stay))
        else:
            parted.append(start[0] + (MASK if quotes_values else _part(text[start.end() :], label, may_stay)))
    return parted


def _fix_field(text: bytes, label: str, *, is_error: bool) -> bytes:
    """Return a field of a message from code in the target. The severities that code can choose are those of notices."""
    if label == _SEVERITY:
        return text if is_error else b"NOTICE"
    if label == "code":
        return _ERROR_CODE if is_error else _NOTICE_CODE
    return MASK if label == "message" else b""


def _part(text: bytes, label: str, may_stay: Known) -> bytes:
    if label in _FREE_TEXT:
        return MASK if label == "detail" and b"\n" in text else _without(text, may_stay)
    if label == "query":
        return MASK
    if label == "context":
        return b"\n".join([_BEHIND.sub(b": " + MASK, line) for line in _without(text, may_stay).split(b"\n")])
    return MASK if label in _NAMES and not may_stay(text) else text


def _without(text: bytes, may_stay: Known) -> bytes:
    if len(text) > _LONGEST:
        return MASK
    # A value can contain quotes: `' Ada '` is quoted as `'' Ada ''`. A text with a mask in it can be the client's
    # choice.
    is_chosen = MASK in text
    text = _UNQUOTED.sub(lambda match: match[0] if may_stay(match[0]) else MASK, _ROW.sub(MASK, text))
    segments = [match[1] for match in _QUOTED.finditer(text)]
    if is_chosen or not all(segment == MASK or (segment and may_stay(segment)) for segment in segments):
        text = _ALL_QUOTED.sub(rb"\g<from>" + MASK + rb"\g<to>", text)
    text = _NUMBER.sub(lambda match: match[0] if may_stay(match[0]) else MASK, text)
    return _BEHIND.sub(lambda match: match[0] if _may_follow(match[0][2:], may_stay) else b": " + MASK, text)


def _may_follow(tail: bytes, may_stay: Known) -> bool:
    """Return whether the text after a colon can stay: it can be a value without quotes, unless only masks are left of
    it.
    """
    return _WORDS.search(_QUOTED.sub(b"", tail).replace(MASK, b"")) is None or may_stay(tail)


def is_harmless_setting(name: str, value: bytes, is_known: Known, *, sets: bool) -> bool:
    """Return whether the target can report this setting: a statement can set it to what it reads.

    `sets`: this statement only sets settings, to constants or to their defaults.
    """
    return name in _SETTINGS or is_known(value) or (sets and name == "TimeZone" and bool(_ZONE.fullmatch(value)))
