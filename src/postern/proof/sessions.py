"""How a session stands in a verification: what its row says, and the list of its segments."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from postern.domain.ledger import Fact, Facts
from postern.errors import Malformed
from postern.proof.canonical import canonical, parse


@dataclass(frozen=True, slots=True)
class Listed:
    """A segment as the session's row has it."""

    number: int
    size: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Told:
    """A session as it is told. `entry` is where its row says it was opened in the ledger."""

    session_id: UUID
    entry: int | None
    opening: Mapping[str, Fact]
    closing: Mapping[str, Fact] | None
    segments: Sequence[Listed]


def opening_of(facts: Facts) -> dict[str, Fact]:
    """What the entry `opened` binds: the script as its SHA-256."""
    script = None if facts.script is None else hashlib.sha256(facts.script.encode()).hexdigest()
    return {**facts.opening, "script": script}


def told(facts: Facts, segments: Sequence[Listed]) -> Told:
    return Told(facts.session_id, facts.opened_entry, opening_of(facts), facts.closing, segments)


def line_of(facts: Facts, segments: Sequence[Listed]) -> bytes:
    """A session in an export, without a line feed. Its metadata is a JSON text: nothing binds it."""
    return canonical(
        {
            "session": str(facts.session_id),
            "entry": facts.opened_entry,
            "opening": facts.opening,
            "closing": facts.closing,
            "script": facts.script,
            "metadata": json.dumps(facts.metadata, sort_keys=True),
            "segments": [{"number": one.number, "size": one.size, "digest": one.digest.hex()} for one in segments],
        }
    )


def read_line(line: bytes) -> Told:
    """Raises Malformed."""
    values = parse(line)
    try:
        script = values["script"]
        opening = {**values["opening"], "script": None if script is None else _digest(script)}
        closing = values["closing"]
        listed = [_listed(one) for one in values["segments"]]
        return Told(UUID(values["session"]), values["entry"], opening, closing, listed)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Malformed("it is not a session of an export") from None


def _digest(script: str) -> str:
    return hashlib.sha256(script.encode()).hexdigest()


def _listed(values: Mapping[str, Any]) -> Listed:
    number, size = values["number"], values["size"]
    if type(number) is not int or type(size) is not int or not 0 <= size < 2**63 or not 0 < number < 2**63:
        raise ValueError("numbers")
    return Listed(number, size, bytes.fromhex(values["digest"]))
