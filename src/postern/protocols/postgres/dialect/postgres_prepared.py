"""Resolution of EXECUTE to the statements that one session has prepared."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from postern.domain.rules.statement import Effect, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.protocols.postgres.dialect.postgres_findings import untold
from postern.protocols.postgres.dialect.postgres_parser import PostgresParser

MOST: Final = 1_000  # texts that prepare something
MOST_LENGTH: Final = 1024 * 1024  # … and their characters


class PreparedStatements:
    """A parser for the statements of one session, in the order in which they are sent.

    `parse` works as in the port, but EXECUTE has the effects of the prepared statement. Call `passed` for each text
    that was forwarded; only those are known. No name is ever removed: only the target knows which were prepared,
    dropped (DEALLOCATE) or rolled back. So a name stands for every text that was forwarded under it, and EXECUTE has
    the effects of all of them. Statements that the protocol prepares (Parse) share these names, but their names are not
    reported here: such a statement may be behind every known name.
    """

    dialect = "postgres"

    def __init__(self, parser: PostgresParser) -> None:
        self._parser = parser
        self._heard: list[str] = []  # forwarded texts that were not parsed yet
        self._texts: dict[str, dict[str, None]] = {}  # by the name that they prepare
        self._by_protocol: dict[str, None] = {}
        self._count = 0
        self._length = 0
        self._is_lost = False

    def record_gap(self) -> None:
        """Record that a text was forwarded unseen: from now on, what EXECUTE runs is unknown."""
        self._is_lost = True
        self._heard.clear()
        self._texts.clear()
        self._by_protocol.clear()

    @property
    def weight(self) -> int:
        return self._length

    def matters_later(self, text: str) -> bool:
        """Return True if the text may prepare a statement. Only PREPARE gives a name a meaning."""
        return False

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        self._look_into(schema)
        statements: list[Statement] = []
        own_statements: dict[str, list[Statement]] = {}  # prepared by the text itself so far
        before: dict[str, list[Statement]] = {}
        for statement in self._parser.judge(text, schema):
            if statement.prepares is not None:
                own_statements.setdefault(statement.prepares, []).append(statement.statement)
            if statement.executes is None or self._is_lost:
                statements.append(statement.statement)
            else:
                if statement.executes not in before:
                    before[statement.executes] = self._find_statements(statement.executes, schema)
                prepared = before[statement.executes] + own_statements.get(statement.executes, [])
                statements.append(
                    _run(statement.statement, statement.executes, prepared) if prepared else statement.statement
                )
        return tuple(statements)

    def executed_statements(self, text: str, schema: TargetSchema | None = None) -> list[str]:
        """Return the texts that prepare the names which this text executes, each once. The text was parsed before."""
        if self._is_lost or "execute" not in text.lower():
            return []
        names = dict.fromkeys(
            statement.executes for statement in self._parser.judge(text, schema) if statement.executes is not None
        )
        return list(dict.fromkeys(text for name in names for text in self._texts.get(name, ())))

    def record_statement(self, text: str, *, by_protocol: bool = False) -> None:
        """Record a forwarded text. The next `parse` reads it, possibly in another process."""
        if self._is_lost or (by_protocol and text in self._by_protocol):
            return
        self._count += 1
        self._length += len(text)
        if self._count > MOST or self._length > MOST_LENGTH:
            self.record_gap()
        elif by_protocol:
            self._by_protocol[text] = None
        else:
            self._heard.append(text)

    def _look_into(self, schema: TargetSchema | None) -> None:
        heard, self._heard = self._heard, []
        for text in heard:
            is_new = False
            for statement in self._parser.judge(text, schema):
                if statement.prepares is not None and text not in self._texts.setdefault(statement.prepares, {}):
                    self._texts[statement.prepares][text] = None
                    is_new = True
            if not is_new:
                self._count -= 1
                self._length -= len(text)

    def _find_statements(self, name: str, schema: TargetSchema | None) -> list[Statement]:
        """Return all statements that the name may stand for; none if it is unknown."""
        statements = [
            analysed.statement
            for text in self._texts.get(name, ())
            for analysed in self._parser.judge(text, schema)
            if analysed.prepares == name
        ]
        if self._by_protocol:
            statements += [statement for text in self._by_protocol for statement in self._parser.parse(text, schema)]
        return statements


def _run(execute: Statement, name: str, prepared: list[Statement]) -> Statement:
    # Within another statement, or with arguments of unknown effect, more than the name is unknown.
    if execute.tag != "EXECUTE" or execute.reason != untold(name):
        return execute
    effects = execute.effects - {Effect.UNKNOWN}
    objects, scans = execute.objects, execute.scans
    for statement in prepared:
        scans |= statement.scans
        effects |= statement.effects
        objects |= statement.objects
    return replace(
        prepared[0],
        tag=execute.tag,
        effects=effects,
        objects=objects,
        without_where=any(statement.without_where for statement in prepared),
        scans=scans,
        reason=next((statement.reason for statement in prepared if statement.reason), ""),
        untraced=next((statement.untraced for statement in prepared if statement.untraced), execute.untraced),
    )
