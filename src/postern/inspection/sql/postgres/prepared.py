"""EXECUTE, where it is known what was prepared: for one session."""

from __future__ import annotations

from dataclasses import replace

from postern.domain.statement import Effect, Statement
from postern.domain.target_schema import TargetSchema
from postern.inspection.sql.postgres.parser import Judged, PostgresParser

MOST_PREPARED = 1_000


class PreparedStatements:
    """A parser for the statements of one session, in the order in which they are sent.

    `parse` as the port has it, but EXECUTE does what was prepared under its name. `passed` tells what has gone to the
    target, as SQL or, with a name, as a statement prepared by the protocol; only what has passed is known. Nothing is
    forgotten: a name may stand for each text that passed under it, since it is the target that knows which of them were
    prepared, dropped (DEALLOCATE), or rolled back, and an EXECUTE does all that any of them does.
    """

    dialect = "postgres"

    def __init__(self, parser: PostgresParser) -> None:
        self._parser = parser
        self._passed: dict[str, Statement] = {}

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        book = dict(self._passed)
        found = []
        for one in self._parser.judge(text, schema):
            _note(book, one)
            known = book.get(one.executes) if one.executes is not None else None
            found.append(one.statement if known is None else _run(one.statement, known))
        return tuple(found)

    def passed(self, text: str, schema: TargetSchema | None = None, name: str = "") -> None:
        """`name`: of a statement that the protocol prepares, as a Parse message of PostgreSQL does."""
        for one in self._parser.judge(text, schema):
            _note(self._passed, replace(one, prepares=name) if name else one)


def _note(book: dict[str, Statement], one: Judged) -> None:
    if one.prepares is None:
        return
    before = book.get(one.prepares)
    if before is None and len(book) >= MOST_PREPARED:
        return  # its EXECUTE stays unknown
    book[one.prepares] = one.statement if before is None else _both(before, one.statement)


def _both(one: Statement, other: Statement) -> Statement:
    return replace(
        one,
        effects=one.effects | other.effects,
        objects=one.objects | other.objects,
        without_where=one.without_where or other.without_where,
        reason=one.reason or other.reason,
    )


def _run(execute: Statement, prepared: Statement) -> Statement:
    if execute.tag != "EXECUTE":  # within another statement, which its own text tells more about
        return execute
    return replace(prepared, tag=execute.tag, effects=prepared.effects | (execute.effects - {Effect.UNKNOWN}),
                   objects=prepared.objects | execute.objects)  # fmt: skip
