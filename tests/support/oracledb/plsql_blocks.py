"""Runs the few forms of PL/SQL that clients and tests need.

A block is `BEGIN … END;` without declarations. Its statements are: NULL; an assignment to a bind variable; INSERT,
UPDATE, DELETE, MERGE, COMMIT, ROLLBACK; SELECT … INTO; EXECUTE IMMEDIATE of a text; OPEN … FOR; and calls of
DBMS_OUTPUT, DBMS_SESSION.SLEEP, RAISE_APPLICATION_ERROR.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.support.oracledb.database import DatabaseSession, Result
from tests.support.oracledb.sql_translation import TOKENS, SqlError
from tests.support.oracledb.type_codings import OracleType, Scalar

BLOCK = re.compile(r"\s*(?:declare\s+)?begin\b(?P<body>.*)\bend\s*;?\s*", re.IGNORECASE | re.DOTALL)
ASSIGNMENT = re.compile(r":B(?P<target>\d+)\s*:=\s*(?P<value>.+)", re.DOTALL)
OPEN = re.compile(r"open\s+:B(?P<target>\d+)\s+for\s+(?P<query>.+)", re.IGNORECASE | re.DOTALL)
INTO = re.compile(
    r"(?P<head>select\b.*?)\binto\s+(?P<targets>:B\d+(?:\s*,\s*:B\d+)*)(?P<tail>.*)", re.IGNORECASE | re.DOTALL
)
CALL = re.compile(r"(?P<name>[\w.]+)\s*(?:\((?P<arguments>.*)\))?", re.DOTALL)
BIND = re.compile(r":B(\d+)")
MOST_LINES = 10_000


@dataclass
class OpenedCursor:
    """A query that a block opened for the client."""

    result: Result


@dataclass
class Output:
    """What DBMS_OUTPUT holds for a session."""

    lines: deque[str] = field(default_factory=deque)
    enabled: bool = False


BlockValue = Scalar | OpenedCursor | list[Scalar]


class BlockRunner:
    """Runs blocks of one session. `stop` ends a sleep."""

    def __init__(self, session: DatabaseSession, stop: threading.Event) -> None:
        self._session = session
        self._stop = stop
        self._output = Output()

    def run(self, block: str, values: Sequence[Scalar], kinds: Sequence[OracleType]) -> dict[int, BlockValue]:
        """Run a block, and return the values that it gave to bind variables. Raises SqlError."""
        match = BLOCK.fullmatch(block)
        if match is None:
            raise SqlError(6550, "this test server runs BEGIN … END without declarations only")
        current = list(values)
        changed: dict[int, BlockValue] = {}
        for statement in split_statements(match.group("body")):
            for position, value in self._step(statement, current, kinds).items():
                changed[position] = value
                if not isinstance(value, (OpenedCursor, list)):
                    current[position] = value
        return changed

    def _step(self, statement: str, values: list[Scalar], kinds: Sequence[OracleType]) -> dict[int, BlockValue]:
        word = statement.split(None, 1)[0].upper()
        if assignment := ASSIGNMENT.fullmatch(statement):
            value = self._evaluate(assignment.group("value"), values, kinds)
            return {int(assignment.group("target")) - 1: value}
        if opened := OPEN.fullmatch(statement):
            return {int(opened.group("target")) - 1: OpenedCursor(self._sql(opened.group("query"), values, kinds))}
        if selected := INTO.fullmatch(statement):
            return self._select_into(selected, values, kinds)
        if word in ("INSERT", "UPDATE", "DELETE", "MERGE", "COMMIT", "ROLLBACK"):
            self._sql(statement, values, kinds)
            return {}
        if statement.upper().startswith("EXECUTE IMMEDIATE"):
            text = self._evaluate(statement[len("EXECUTE IMMEDIATE") :], values, kinds)
            self._sql(str(text), [], [])
            return {}
        if word == "NULL":
            return {}
        return self._call(statement, values, kinds)

    def _sql(self, sql: str, values: Sequence[Scalar], kinds: Sequence[OracleType]) -> Result:
        """Run SQL with the bind variables of the block, which it may name in any order."""
        positions = [int(number) - 1 for number in BIND.findall(sql)]
        statement = self._session.prepare(sql)
        used = [kinds[position] for position in positions] if kinds else []
        return self._session.run(statement, [values[position] for position in positions], used)

    def _evaluate(self, expression: str, values: Sequence[Scalar], kinds: Sequence[OracleType]) -> Scalar:
        return self._sql(f"select {expression} from dual", values, kinds).rows[0][0]

    def _select_into(
        self, match: re.Match[str], values: Sequence[Scalar], kinds: Sequence[OracleType]
    ) -> dict[int, BlockValue]:
        result = self._sql(match.group("head") + match.group("tail"), values, kinds)
        if len(result.rows) != 1:
            raise SqlError(1403, "no data found") if not result.rows else SqlError(1422, "exact fetch returns too many")
        targets = [int(number) - 1 for number in BIND.findall(match.group("targets"))]
        return dict(zip(targets, result.rows[0], strict=True))

    def _call(self, statement: str, values: list[Scalar], kinds: Sequence[OracleType]) -> dict[int, BlockValue]:
        match = CALL.fullmatch(statement)
        name = match.group("name").lower() if match else ""
        arguments = split_statements(match.group("arguments") or "", ",") if match else []
        procedures: dict[str, Callable[[list[str]], dict[int, BlockValue]]] = {
            "dbms_output.enable": lambda _: self._enable(True),
            "dbms_output.disable": lambda _: self._enable(False),
            "dbms_output.put_line": lambda texts: self._put_line(self._evaluate(texts[0], values, kinds)),
            "dbms_output.get_line": self._get_line,
            "dbms_output.get_lines": lambda texts: self._get_lines(texts, values),
            "dbms_session.sleep": lambda texts: self._sleep(self._evaluate(texts[0], values, kinds)),
            "dbms_lock.sleep": lambda texts: self._sleep(self._evaluate(texts[0], values, kinds)),
            "raise_application_error": lambda texts: self._raise(
                *(self._evaluate(t, values, kinds) for t in texts[:2])
            ),
        }
        if name not in procedures:
            raise SqlError(6550, f"PLS-00201: identifier '{name.upper()}' must be declared")
        return procedures[name](arguments)

    def _enable(self, enabled: bool) -> dict[int, BlockValue]:
        self._output.enabled = enabled
        if not enabled:
            self._output.lines.clear()
        return {}

    def _put_line(self, text: Scalar) -> dict[int, BlockValue]:
        if self._output.enabled:
            if len(self._output.lines) >= MOST_LINES:
                raise SqlError(20000, "ORU-10027: buffer overflow")
            self._output.lines.append("" if text is None else str(text))
        return {}

    def _get_line(self, targets: list[str]) -> dict[int, BlockValue]:
        line, status = (int(target.strip()[2:]) - 1 for target in targets)
        if not self._output.lines:
            return {line: None, status: 1}
        return {line: self._output.lines.popleft(), status: 0}

    def _get_lines(self, targets: list[str], values: list[Scalar]) -> dict[int, BlockValue]:
        lines, count = (int(target.strip()[2:]) - 1 for target in targets)
        wanted = values[count]
        assert isinstance(wanted, int)
        taken: list[Scalar] = [self._output.lines.popleft() for _ in range(min(wanted, len(self._output.lines)))]
        return {lines: taken, count: len(taken)}

    def _sleep(self, seconds: Scalar) -> dict[int, BlockValue]:
        assert isinstance(seconds, (int, float)) or seconds is not None
        if self._stop.wait(float(seconds)):  # type: ignore[arg-type]
            raise SqlError(1013, "user requested cancel of current operation")
        return {}

    def _raise(self, code: Scalar = None, text: Scalar = None) -> dict[int, BlockValue]:
        assert isinstance(code, int)
        raise SqlError(abs(code), str(text))


def split_statements(text: str, separator: str = ";") -> list[str]:
    """Split a text where no quotation, comment or bracket is open."""
    parts, current, depth = [], "", 0
    for token in TOKENS.finditer(text):
        piece = token.group()
        if piece.startswith(("'", '"', "--", "/*")):
            current += piece
            continue
        for character in piece:
            depth += (character == "(") - (character == ")")
            if character == separator and depth <= 0:
                parts.append(current.strip())
                current = ""
            else:
                current += character
    parts.append(current.strip())
    return [part for part in parts if part]
