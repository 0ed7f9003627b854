"""The parser of PostgreSQL's dialect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from postern.domain.rules.statement import Effect, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.postgres.postgres_tree import Message, UnreadablePostgres, node, readings
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.protocols.postgres.dialect.postgres_findings import Findings
from postern.protocols.postgres.dialect.postgres_names import TargetNames
from postern.protocols.postgres.dialect.postgres_scans import scans_of
from postern.protocols.postgres.dialect.postgres_shapes import POSTGRES_SHAPES
from postern.protocols.postgres.dialect.postgres_statements import HANDLERS, tag_of
from postern.protocols.postgres.dialect.postgres_walk import Walk

CACHED_SCHEMAS = 8
DEEPEST_CODE = 8  # views that read views, functions within functions
_TWO_WAYS: Final = "it holds a backslash, which is read otherwise where standard_conforming_strings is off"


@dataclass(frozen=True, slots=True)
class Judged:
    """A statement, with the name that it prepares or runs, where it is a PREPARE or an EXECUTE, and whether it may set
    a client encoding that is not read here."""

    statement: Statement
    prepares: str | None = None
    executes: str | None = None
    encodes: bool = False


class PostgresParser(Shared):
    """Judges what is between `standard_conforming_strings` on and off, PostgreSQL 15 and 18, alike: what would have
    other effects by another reading is unknown.

    What was parsed last is kept, by text; one parser serves a whole process. A `TargetSchema` is known by its identity:
    whoever reads a catalogue anew makes a new one.
    """

    dialect = "postgres"
    shapes = POSTGRES_SHAPES

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Judged, ...]] = TextCache()
        self._names: list[tuple[TargetSchema | None, TargetNames]] = []

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        """See the port. Texts of more than 1 MiB are unknown."""
        return tuple(one.statement for one in self.judge(text, schema))

    def judge(self, text: str, schema: TargetSchema | None = None) -> tuple[Judged, ...]:
        """As `parse`, with the names of prepared statements."""
        return self._cache.of(text, schema, self._judged)

    def _known(self, schema: TargetSchema | None) -> TargetNames:
        for one, known in self._names:
            if one is schema:
                return known
        known = TargetNames(schema)
        self._names = [(schema, known), *self._names[: CACHED_SCHEMAS - 1]]
        return known

    def _judged(self, text: str, schema: TargetSchema | None) -> tuple[Judged, ...]:
        known = self._known(schema)
        try:
            ways = [[_walk(one, known, 0) for one in way] for way in readings(text)]
        except UnreadablePostgres as error:
            return (Judged(unknown(str(error)), encodes=True),)
        except RecursionError:
            return (Judged(unknown("it is nested too deeply"), encodes=True),)
        except Exception as error:  # fail closed, and a test asks of every statement it knows for this reason
            return (Judged(unknown(f"it could not be judged ({type(error).__name__})"), encodes=True),)
        judged = [
            tuple(Judged(one.statement(), one.prepares, one.executes, one.encodes) for one in way) for way in ways
        ]
        if len(judged) == 1 or judged[0] == judged[1]:
            return judged[0]
        return tuple(_doubtful(one) for way in judged for one in way)


def _walk(statement: Message, known: TargetNames, deep: int) -> Findings:
    kind, message = node(statement)
    found = Walk(known, HANDLERS, _code(known, deep + 1)).run(kind, message)
    found.tag = tag_of(kind, message)
    found.scans = scans_of(kind, message)
    return found


def _code(known: TargetNames, deep: int) -> Callable[[str], Findings]:
    def code(text: str) -> Findings:
        found = Findings()
        if deep > DEEPEST_CODE:
            found.unknown("views and functions in it lead too deep")
            return found
        try:
            for way in readings(text):
                for one in way:
                    found.join(_walk(one, known, deep))
        except UnreadablePostgres as error:
            found.unknown(f"code in it: {error}")
        return found

    return code


def _doubtful(one: Judged) -> Judged:
    statement = one.statement
    reason = "; ".join(filter(None, (statement.reason, _TWO_WAYS)))
    return replace(one, statement=replace(statement, effects=statement.effects | {Effect.UNKNOWN}, reason=reason))
