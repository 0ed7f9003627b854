"""How a session stands in a verification: what its row says, and the list of its segments."""

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
BINDS = 2  # of entries that are written now
# Which facts entries bind since when; the others since the first.
_SINCE: Mapping[str, int] = {"review_id": 2, "event_size": 2, "masked": 2, "metrics": 2, "refused": 2}


def bound(facts: Mapping[str, Fact], binds: int) -> dict[str, Fact]:
    """Return what of these facts an entry binds that says `binds`."""
    return {name: value for name, value in facts.items() if _SINCE.get(name, 1) <= binds}


@dataclass(frozen=True, slots=True)
class ListedSegment:
    """A segment as the session's row has it."""

    number: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class VerifiedSession:
    """A session as it is told. `entry` is where its row says it was opened in the ledger."""

    session_id: UUID
    entry: int | None
    opening: Mapping[str, Fact]
    closing: Mapping[str, Fact] | None
    segments: Sequence[ListedSegment]


def opening_of(facts: SessionFacts) -> dict[str, Fact]:
    """What the entry `opened` binds: the script as its SHA-256."""
    return {**facts.opening, "script": None if facts.script is None else _digest(facts.script)}


def told(facts: SessionFacts, segments: Sequence[ListedSegment]) -> VerifiedSession:
    return VerifiedSession(facts.session_id, facts.opened_entry, opening_of(facts), facts.closing, segments)


def line_of(facts: SessionFacts, segments: Sequence[ListedSegment]) -> bytes:
    """A session in an export, without a line feed. Its metadata is a JSON text: nothing binds it. Raises Malformed."""
    return canonical(
        {
            "session": str(facts.session_id),
            "entry": facts.opened_entry,
            "opening": facts.opening,
            "closing": facts.closing,
            "script": facts.script,
            "metadata": _METADATA.encode(facts.metadata),
            "segments": [{"number": one.number, "size": one.size, "digest": one.digest.hex()} for one in segments],
        }
    )


def read_line(line: bytes) -> VerifiedSession:
    """Raises Malformed."""
    values = parse(line)
    try:
        script, entry, closing = values["script"], values["entry"], values["closing"]
        session = UUID(values["session"])
        same = str(session) == values["session"] and (entry is None or (type(entry) is int and entry > 0))
        opening = {**_facts(values["opening"]), "script": None if script is None else _digest(script)}
        listed = [_listed(one) for one in values["segments"]]
        ended = None if closing is None else _facts(closing)
    except (ValueError, KeyError, TypeError, AttributeError):
        same = False
    if not same:
        raise Malformed("it is not a session of an export")
    return VerifiedSession(session, entry, opening, ended, listed)


def _digest(script: str) -> str:
    """A script that an SQLite store was made to hold may have halves of surrogate pairs."""
    return hashlib.sha256(script.encode("utf-8", "surrogatepass")).hexdigest()


def _facts(values: object) -> dict[str, Fact]:
    if not isinstance(values, dict) or not all(one is None or isinstance(one, str | int) for one in values.values()):
        raise ValueError("facts")
    return values


def _listed(values: object) -> ListedSegment:
    if not isinstance(values, dict):
        raise ValueError("segments")
    number, size = values["number"], values["size"]
    if type(number) is not int or type(size) is not int or not 0 <= size < 2**63 or not 0 < number < 2**63:
        raise ValueError("numbers")
    return ListedSegment(number, size, bytes.fromhex(values["digest"]))
