"""What a case is, in every dialect, and what was seen when a real server ran it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from postern.domain.rules.statement import Effect, Statement

# A guard that lets people read, and nothing else, lets these through.
HARMLESS = frozenset({Effect.READ, Effect.SESSION})


class Truth(StrEnum):
    """What the server does with it. The guard must let `HARMLESS` through, and nothing else."""

    HARMLESS = "harmless"  # runs in a read-only transaction, changes nothing, needs no rights but to read
    CHANGES = "changes"  # a read-only transaction refuses it, or something is different afterwards
    PRIVILEGED = "privileged"  # changes nothing that could be seen, but an ordinary account may not do it
    REJECTED = "rejected"  # the server cannot read it either: nothing happens, whatever a guard says
    # Nobody can tell from the text (code in another language, functions of one's own, names without their texts):
    # what this one does on the server is told by its other fields, and the guard must not guess.
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class Case:
    """`effects` are those that all its statements must be judged to have together, exactly; where UNKNOWN is among
    them, others may come with it. None for what is rejected: anything may be said of it, and nothing raised.
    `before` are statements that the server runs first, each alone (they are judged by nobody); `without_where` is what
    the parser must say of it. `group` is what kind of trick it is, for the table; `needs` the least version of a server
    that can run it (for PostgreSQL: 17 for 17.0)."""

    name: str
    group: str
    text: str
    truth: Truth
    effects: frozenset[Effect] | None = None
    without_where: bool = False
    before: tuple[str, ...] = ()
    needs: int = 0


@dataclass(frozen=True, slots=True)
class Ordinary:
    """A statement as applications and their libraries send it; it must be judged as `effects`, exactly."""

    source: str  # who sends such: "Django", "psql", …
    text: str
    effects: frozenset[Effect]


@dataclass(frozen=True, slots=True)
class Observed:
    """What a server did. `refused`: it refused because the transaction was read-only; `changed`: what it holds, or its
    settings or files, were different after it ran where it may write; `denied`: an account without rights was turned
    away; `rejected`: it could not read the text; `error`: its last word where it ended in an error all the same."""

    refused: bool = False
    changed: bool = False
    denied: bool = False
    rejected: bool = False
    error: str = ""

    @property
    def truth(self) -> Truth:
        if self.rejected:
            return Truth.REJECTED
        if self.refused or self.changed:
            return Truth.CHANGES
        return Truth.PRIVILEGED if self.denied else Truth.HARMLESS


def effects_of(statements: Iterable[Statement]) -> frozenset[Effect]:
    return frozenset(effect for statement in statements for effect in statement.effects)


def lets_through(statements: tuple[Statement, ...]) -> bool:
    """What a guard would do whose one rule is: people may read."""
    return effects_of(statements) <= HARMLESS


def judged_rightly(case: Case, statements: tuple[Statement, ...]) -> bool:
    """Let through or not as the server would have it, and for the right reason."""
    if case.truth is Truth.REJECTED:
        return True
    found = effects_of(statements)
    assert case.effects is not None, case.name
    same = case.effects <= found if Effect.UNKNOWN in case.effects else case.effects == found
    without_where = any(statement.without_where for statement in statements)
    return same and without_where == case.without_where and lets_through(statements) == (case.truth is Truth.HARMLESS)
