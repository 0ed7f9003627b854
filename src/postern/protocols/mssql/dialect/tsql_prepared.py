"""Resolution of sp_execute to the statements that one session has prepared."""

from __future__ import annotations

import re
from typing import Final

from postern.domain.rules.statement import Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.domain.text import small_letters
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, key_at
from postern.protocols.mssql.dialect.tsql_batches import readings, statements
from postern.protocols.mssql.dialect.tsql_exec import TEXT_PROCEDURES, parse_exec
from postern.protocols.mssql.dialect.tsql_parser import TSqlParser, creates_code, judge_text, texts_of_batch
from postern.protocols.mssql.dialect.tsql_texts import BatchTexts

MOST: Final = 1_000  # texts that prepare something
MOST_LENGTH: Final = 1024 * 1024  # … and their characters
_PREPARES: Final = re.compile("sp_(?:cursor)?prep")
_EXECUTES: Final = re.compile("sp_(?:cursor)?execute(?!sql)")


class TSqlPreparedStatements:
    """A parser for the statements of one session, in the order in which they are sent.

    `parse` works as in the port, but sp_execute has the effects of every statement that the session has prepared: it
    names one by a number, which the server chooses. Call `record_statement` for each text that was forwarded. No
    statement is ever forgotten. Texts that batches build by themselves need no session: see `tsql_texts`.
    """

    dialect = "tsql"

    def __init__(self, parser: TSqlParser) -> None:
        self._parser = parser
        self._prepared: dict[str, None] = {}  # in their order
        self._length = 0
        self._is_lost = False

    def record_gap(self) -> None:
        """Record that a text was forwarded unseen: from now on, what sp_execute runs is unknown."""
        self._is_lost = True
        self._prepared.clear()
        self._length = 0

    @property
    def weight(self) -> int:
        return self._length

    def matters_later(self, text: str) -> bool:
        """Return whether the text may prepare or execute a statement."""
        return _may_prepare(text)

    def record_statement(self, text: str, *, by_protocol: bool = False) -> None:
        """Record a forwarded text, or one that the protocol prepares: the server numbers both alike."""
        if self._is_lost:
            return
        texts = [text] if by_protocol else self._find_prepared(text)
        if texts is None:
            self.record_gap()
            return
        for each in texts:
            if each not in self._prepared:
                self._prepared[each] = None
                self._length += len(each)
        if len(self._prepared) > MOST or self._length > MOST_LENGTH:
            self.record_gap()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        if _EXECUTES.search(small_letters(text)) is None:
            return self._parser.parse(text, schema)

        def judge_prepared() -> list[Statement] | None:
            texts = self._texts_within(text)
            return (
                None
                if texts is None
                else [statement for each in texts for statement in self._parser.parse(each, schema)]
            )

        return judge_text(text, schema, prepared=judge_prepared)

    def executed_statements(self, text: str, schema: TargetSchema | None = None) -> list[str]:
        """Return what the text may execute by a number, each once. The text was parsed before."""
        if _EXECUTES.search(small_letters(text)) is None:
            return []
        return list(self._texts_within(text) or ())

    def _texts_within(self, text: str) -> dict[str, None] | None:
        """Return what a text can execute by a number: what was prepared before, or by itself; None if unknown."""
        own = self._find_prepared(text)
        return None if self._is_lost or own is None else self._prepared | dict.fromkeys(own)

    def _find_prepared(self, text: str) -> list[str] | None:
        """Return the texts that a text prepares; None if one is unknown."""
        if not _may_prepare(text):
            return []
        found: list[str] = []
        try:
            for batches in readings(text):
                for batch in batches:
                    known = texts_of_batch(batch)
                    for tokens in statements(batch):
                        if creates_code(tokens):
                            break
                        texts = _prepared_texts(tokens, known)
                        if texts is None:
                            return None
                        found += texts
                        known.learn(tokens)
        except UnreadableSql:
            return None
        return found


def _may_prepare(text: str) -> bool:
    small = small_letters(text)
    return "exec" in small or _PREPARES.search(small) is not None


def _prepared_texts(tokens: list[SqlToken], known: BatchTexts) -> tuple[str, ...] | None:
    """Return the texts that a statement prepares; None if it may prepare an unknown one."""
    if tokens[0].key not in ("EXEC", "EXECUTE", "INSERT") and not tokens[0].is_name:
        return ()
    start = next((at for at, token in enumerate(tokens) if token.key in ("EXEC", "EXECUTE")), len(tokens))
    is_call = start < len(tokens) and key_at(tokens, start + 1) != "AS"
    if not is_call and _PREPARES.search(small_letters(tokens[0].text)) is None:
        return ()
    call = parse_exec(tokens[start:] if is_call else tokens)
    if call.runs_text and not call.is_elsewhere:
        texts = call.texts(known)
        if call.procedure in TEXT_PROCEDURES and call.procedure != "sp_executesql":
            return texts
        # A text within it can prepare something, too; that is not followed.
        return None if texts is None or any(map(_may_prepare, texts)) else ()
    is_target_procedure = call.text is None and bool(call.name) and all(part.isascii() for part in call.name)
    return () if is_target_procedure and _PREPARES.match(call.procedure) is None else None
