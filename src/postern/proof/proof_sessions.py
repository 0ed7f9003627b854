"""Session in a verification: the facts of its row, and the list of its segments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from postern.domain.sessions.ledger import Fact, SessionFacts
from postern.errors import Malformed
from postern.proof.canonical import canonical, parse

_METADATA = json.JSONEncoder(sort_keys=True)
BINDS = 2  # version of entries that are written now
# First version of entries that binds a fact; the others are bound since version 1.
_SINCE: Mapping[str, int] = {"review_id": 2, "event_size": 2, "masked": 2, "metrics": 2, "refused": 2}


def bound_facts(facts: Mapping[str, Fact], binds: int) -> dict[str, Fact]:
    """Return the facts that an entry with this `binds` covers."""
    return {name: value for name, value in facts.items() if _SINCE.get(name, 1) <= binds}


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """Segment as listed in the session's row."""

    number: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class VerifiedSession:
    """Session that is verified. `entry` is the ledger entry that opened it, according to its row."""

    session_id: UUID
    entry: int | None
    opening: Mapping[str, Fact]
    closing: Mapping[str, Fact] | None
    segments: Sequence[ListedSegment]


def opening_of(facts: SessionFacts) -> dict[str, Fact]:
    """Return the facts that the entry `opened` binds, with the script as its SHA-256."""
    return {**facts.opening, "script": None if facts.script is None else _digest(facts.script)}


def make_session(facts: SessionFacts, segments: Sequence[ListedSegment]) -> VerifiedSession:
    return VerifiedSession(facts.session_id, facts.opened_entry, opening_of(facts), facts.closing, segments)


def format_line(facts: SessionFacts, segments: Sequence[ListedSegment]) -> bytes:
    """Return a session as a line of an export, without line feed. Raises Malformed.

    Its metadata is a JSON text that no entry binds.
    """
    return canonical(
        {
            "session": str(facts.session_id),
            "entry": facts.opened_entry,
            "opening": facts.opening,
            "closing": facts.closing,
            "script": facts.script,
            "metadata": _METADATA.encode(facts.metadata),
            "segments": [
                {"number": segment.number, "size": segment.size, "digest": segment.digest.hex()} for segment in segments
            ],
        }
    )


def read_line(line: bytes) -> VerifiedSession:
    """Parse a line. Raises Malformed."""
    values = parse(line)
    try:
        script, entry, closing = values["script"], values["entry"], values["closing"]
        session = UUID(values["session"])
        is_valid = str(session) == values["session"] and (entry is None or (type(entry) is int and entry > 0))
        opening = {**_facts(values["opening"]), "script": None if script is None else _digest(script)}
        listed = [_read_segment(segment) for segment in values["segments"]]
        ended = None if closing is None else _facts(closing)
    except (ValueError, KeyError, TypeError, AttributeError):
        is_valid = False
    if not is_valid:
        raise Malformed("it is not a session of an export")
    return VerifiedSession(session, entry, opening, ended, listed)


def _digest(script: str) -> str:
    """Return a script's SHA-256. Scripts in an SQLite store can contain lone surrogates."""
    return hashlib.sha256(script.encode("utf-8", "surrogatepass")).hexdigest()


def _facts(values: object) -> dict[str, Fact]:
    if not isinstance(values, dict) or not all(
        value is None or isinstance(value, str | int) for value in values.values()
    ):
        raise ValueError("facts")
    return values


def _read_segment(values: object) -> ListedSegment:
    if not isinstance(values, dict):
        raise ValueError("segments")
    number, size = values["number"], values["size"]
    if type(number) is not int or type(size) is not int or not 0 <= size < 2**63 or not 0 < number < 2**63:
        raise ValueError("numbers")
    return ListedSegment(number, size, bytes.fromhex(values["digest"]))
