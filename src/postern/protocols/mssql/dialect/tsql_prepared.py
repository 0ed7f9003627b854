"""Resolution of sp_execute to the statements that one session has prepared."""

from __future__ import annotations

import re
from typing import Final

from postern.domain.rules.statement import Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.domain.text import small_letters
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, word
from postern.protocols.mssql.dialect.tsql_batches import readings, statements
from postern.protocols.mssql.dialect.tsql_exec import PREPARED_PROCEDURES, TEXT_PROCEDURES, ExecCall, parse_exec
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
        small = small_letters(text)
        return _PREPARES.search(small) is not None or _EXECUTES.search(small) is not None

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
        if _PREPARES.search(small_letters(text)) is None:
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


def _prepared_texts(tokens: list[SqlToken], known: BatchTexts) -> tuple[str, ...] | None:
    call = _call(tokens)
    if call is None or not call.runs_text:
        return ()
    texts = call.texts(known)
    if call.procedure not in TEXT_PROCEDURES or call.procedure == "sp_executesql":
        # It may prepare something by a text within its own: then that is not followed.
        is_doubtful = texts is None or any(_PREPARES.search(small_letters(text)) for text in texts)
        return None if is_doubtful else ()
    return texts


def _call(tokens: list[SqlToken]) -> ExecCall | None:
    if tokens[0].key in ("EXEC", "EXECUTE"):
        return parse_exec(tokens)
    call = parse_exec([word("EXEC"), *tokens]) if tokens[0].is_name else None
    return call if call is not None and call.procedure in (*TEXT_PROCEDURES, *PREPARED_PROCEDURES) else None
