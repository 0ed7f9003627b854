"""The form of a case in every dialect, and of the observed result on a real server."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from postern.domain.rules.statement import Effect, Statement

# A guard that lets people read, and nothing else, lets these through.
HARMLESS = frozenset({Effect.READ, Effect.SESSION})


class Truth(StrEnum):
    """The effect of a text on the server. A guardrail must pass `HARMLESS` and nothing else."""

    HARMLESS = "harmless"  # runs in a read-only transaction, changes nothing, needs no rights but to read
    CHANGES = "changes"  # a read-only transaction refuses it, or something is different afterwards
    PRIVILEGED = "privileged"  # changes nothing that could be seen, but an ordinary account may not do it
    REJECTED = "rejected"  # the server cannot read it either: nothing happens, whatever a guard says
    # Nobody can tell from the text (code in another language, functions of one's own, names without their texts):
    # other fields state its effect on the server, and the guardrail must not guess.
    UNDECIDABLE = "undecidable"


@dataclass(frozen=True, slots=True)
class Case:
    """`effects` are the exact effects that all statements of the text must be judged to have together; with UNKNOWN,
    others can be added. None for rejected texts: any judgement is right, but parsing must not raise. `before` are
    statements that the server runs first, each alone and without judgement; `without_where` is the expected flag of
    the parser. `group` is the kind of attack, for the table; `needs` is the lowest version of a server that can run
    it (for PostgreSQL: 17 for 17.0)."""

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
    """A statement as applications and their libraries send it. It must be judged to have exactly `effects`."""

    source: str  # who sends such: "Django", "psql", …
    text: str
    effects: frozenset[Effect]


@dataclass(frozen=True, slots=True)
class Observed:
    """The observed behaviour of a server. `refused`: it refused the text in a read-only transaction; `changed`: its
    data, settings or files differed after the text ran with write access; `denied`: it denied the text to an account
    without privileges; `rejected`: it could not parse the text; `error`: the last error, if the text ended with one."""

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
    """Whether a guardrail whose only rule allows reads would pass the statements."""
    return effects_of(statements) <= HARMLESS


def judged_rightly(case: Case, statements: tuple[Statement, ...]) -> bool:
    """Whether the statements pass or are denied as the server requires, with the expected effects."""
    if case.truth is Truth.REJECTED:
        return True
    found = effects_of(statements)
    assert case.effects is not None, case.name
    same = case.effects <= found if Effect.UNKNOWN in case.effects else case.effects == found
    without_where = any(statement.without_where for statement in statements)
    return same and without_where == case.without_where and lets_through(statements) == (case.truth is Truth.HARMLESS)
