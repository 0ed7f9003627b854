"""Analysis of a script's statements one by one, for previews: as a task that can run in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from postern.domain.rules.script_preview import AnalysedPart, ScriptAnalysis
from postern.domain.rules.statement import EVERYTHING, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.schema_ref import pack_schema
from postern.inspection.sql.script_spans import ScriptSpans
from postern.inspection.sql.sql_parser import Parser, SessionParser

Split = Callable[[str], ScriptSpans]


class AnalyseScript:
    """Task that analyses the first `most` statements of a text. `names` makes a tracker of prepared statements.

    `statements` has the place of each statement and what it is for the parser; without it, the text is split.
    """

    def __init__(
        self,
        parser: Parser,
        split: Split,
        names: Callable[[Parser], SessionParser] | None,
        schema: TargetSchema | None,
        text: str,
        most: int,
        *,
        statements: Sequence[tuple[int, int, str]] = (),
    ) -> None:
        self._parser = parser
        self._split = split
        self._names = names
        self._schema = None if schema is None else pack_schema(schema)
        self._text = text
        self._most = most
        self._statements = tuple(statements)

    def __call__(self) -> ScriptAnalysis:
        schema = None if self._schema is None else self._schema.load()
        names = None if self._names is None else self._names(self._parser)
        problem, statements = None, self._statements
        if not statements:
            found = self._split(self._text)
            problem = found.problem
            statements = tuple([(start, end, self._text[start:end]) for start, end in found.spans])
        parts = []
        for start, end, text in statements[: self._most]:
            parser = self._parser if names is None else names
            parts.append(_combine(start, end, parser.parse(text, schema), self._parser.parse(text)))
            if names is not None:
                names.record_statement(text)
        return ScriptAnalysis(tuple(parts), len(statements) > self._most, problem)


def _combine(start: int, end: int, statements: Sequence[Statement], as_written: Sequence[Statement]) -> AnalysedPart:
    """Combine the readings of one statement: there are several where servers may read it differently."""
    objects = {touched for statement in as_written for touched in statement.objects} - {EVERYTHING}
    return AnalysedPart(
        start,
        end,
        next((statement.tag for statement in statements if statement.tag), ""),
        tuple(sorted({str(effect) for statement in statements for effect in statement.effects})),
        tuple(sorted((str(touched.kind), touched.schema, touched.name) for touched in objects)),
        any(statement.without_where for statement in statements),
        next((statement.reason for statement in statements if statement.reason), ""),
    )
