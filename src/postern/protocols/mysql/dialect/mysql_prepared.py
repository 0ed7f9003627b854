"""Resolution of EXECUTE of MySQL and MariaDB to the statements that one session has prepared."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from postern.domain.rules.statement import Effect, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.domain.text import small_letters
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Draft, Judging
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, key_at, split_at_commas, word
from postern.protocols.mysql.dialect.mysql_parser import MySqlParser, judge, judge_text, whole_statements, without_into
from postern.protocols.mysql.dialect.mysql_readings import readings
from postern.protocols.mysql.dialect.mysql_texts import (
    Texts,
    VariableText,
    is_user_variable,
    limit_texts,
    may_respell,
    texts_of,
    variable_name,
)

MOST: Final = 1_000  # texts that prepare something, or set a variable
MOST_LENGTH: Final = 1024 * 1024  # … and their characters
_DEEPEST: Final = 4  # texts that run texts
_MOST_RUN: Final = 256 * 1024  # characters of the texts that one text runs, counted each time
_KEEPING: Final = ("call", "prepare", "execute")
_SEARCHED: Final = 16 * 1024  # characters; in a longer text, such a word also counts as part of others
_KEEPS: Final = re.compile(r"\bcall\b|\bprepare\b|\bexecute\b", re.IGNORECASE)
_PLAIN: Final = frozenset({"SELECT", "INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "(", "TABLE", "VALUES", "SHOW"})


def may_keep(text: str) -> bool:
    """Return True if the text may give a variable or a prepared statement a meaning, or run one."""
    small = small_letters(text)
    if "@" in text:
        return True
    if not any(word in small for word in _KEEPING):
        return False
    return len(text) > _SEARCHED or _KEEPS.search(text) is not None


@dataclass
class PreparedTexts:
    """The possible contents of variables and prepared statements; unknown once `is_lost`. `size` is their number of
    characters."""

    variables: dict[str, Texts] = field(default_factory=dict)
    names: dict[str, Texts] = field(default_factory=dict)
    is_lost: bool = False
    size: int = 0
    _run: int = 0  # characters that ran since `begin`

    def copy(self) -> PreparedTexts:
        return PreparedTexts(dict(self.variables), dict(self.names), self.is_lost, self.size)

    def begin(self) -> None:
        """Start the next text."""
        self._run = 0

    def runs(self, text: str) -> bool:
        """Return True if the text that a statement runs can be analysed. Beyond a limit, everything is unknown from
        then on."""
        self._run += len(text)
        if self._run > _MOST_RUN:
            self.lose()
        return not self.is_lost

    def lose(self) -> None:
        self.is_lost = True
        self.size = 0
        self.variables.clear()
        self.names.clear()

    def resolve_texts(self, texts: Texts) -> tuple[str, ...] | None:
        if isinstance(texts, VariableText):
            texts = None if self.is_lost else self.variables.get(texts.name)
        return texts if isinstance(texts, tuple) else None

    def find_prepared_texts(self, tokens: Sequence[SqlToken]) -> tuple[str, ...] | None:
        """Return the texts that PREPARE prepares, or EXECUTE runs."""
        if key_at(tokens, 0) == "PREPARE":
            return self.resolve_texts(texts_of(tokens[3:])) if key_at(tokens, 2) == "FROM" else None
        end = next((at for at, token in enumerate(tokens) if token.key == "USING"), len(tokens))
        if key_at(tokens, 1) == "IMMEDIATE":
            return self.resolve_texts(texts_of(tokens[2:end]))
        return None if end != 2 or self.is_lost else self.resolve_texts(self.names.get(fold_identifier(tokens[1].text)))

    def learn(self, tokens: Sequence[SqlToken], deep: int = 0) -> None:
        """Record a statement's effect. It may fail, so earlier meanings stay."""
        first = key_at(tokens, 0)
        if self.is_lost:
            return
        if first == "CALL" or deep > _DEEPEST:
            self.lose()
        elif first == "PREPARE":
            if len(tokens) > 1:
                self._add(self.names, fold_identifier(tokens[1].text), self.find_prepared_texts(tokens))
        elif first == "EXECUTE":
            self._learn_run(self.find_prepared_texts(tokens), deep + 1)
        elif first == "SET":
            if may_respell(tokens):
                self.lose()
                return
            for part in split_at_commas(tokens[1:]):
                named = bool(part) and is_user_variable(part[0]) and key_at(part, 1) in ("=", ":=")
                if named:
                    self._add(self.variables, variable_name(part[0]), self.resolve_texts(texts_of(part[2:])))
                self._mark_unknown_variables(part[2:] if named else part)
        else:
            self._mark_unknown_variables(tokens, anyhow=first not in _PLAIN)

    def _learn_run(self, texts: tuple[str, ...] | None, deep: int) -> None:
        for text in texts or ():
            if may_keep(text) and self.runs(text):
                self.learn_text(text, deep)
        if texts is None:
            self.lose()

    def learn_text(self, text: str, deep: int = 0) -> None:
        try:
            for reading in () if self.is_lost else readings(text):
                if reading.broken and reading.usual:
                    self.lose()
                for tokens in whole_statements(reading):
                    self.learn(tokens, deep)
        except UnreadableSql:
            self.lose()

    def _mark_unknown_variables(self, tokens: Sequence[SqlToken], *, anyhow: bool = False) -> None:
        """Mark the variables that can contain anything from now on."""
        _, into = without_into(list(tokens))
        filled = [token for token in into if is_user_variable(token)]
        for place, token in enumerate(tokens):
            if is_user_variable(token) and (anyhow or key_at(tokens, place + 1) == ":="):
                filled.append(token)
        for token in filled:
            self._add(self.variables, variable_name(token), None)

    def _add(self, stored_texts: dict[str, Texts], name: str, texts: Texts) -> None:
        before = stored_texts.get(name, ())
        after = limit_texts((*before, *texts)) if isinstance(before, tuple) and isinstance(texts, tuple) else None
        stored_texts[name] = after
        self.size += sum(map(len, after or ())) - sum(map(len, before if isinstance(before, tuple) else ()))
        if len(stored_texts) > MOST or self.size > MOST_LENGTH:
            self.lose()


class MySqlPreparedStatements:
    """A parser for the statements of one session, in the order in which they are sent.

    `parse` works as in the port, but EXECUTE has the effects of the statement that was prepared under its name, from a
    literal or from a variable that was set to one (including CONCAT and IF of literals). Call `passed` for each text
    that was forwarded; only those are known. No name is ever removed: a name stands for every text that was forwarded
    under it. Statements that the protocol prepares have numbers, and no EXECUTE names them.
    """

    dialect = "mysql"

    def __init__(self, parser: MySqlParser) -> None:
        self._parser = parser
        self._known = PreparedTexts()
        self._heard: list[str] = []  # forwarded texts that were not parsed yet
        self._count = 0
        self._length = 0

    def record_gap(self) -> None:
        """Record that a text was forwarded unseen: from now on, what EXECUTE runs is unknown."""
        self._known = PreparedTexts(is_lost=True)
        self._heard.clear()

    @property
    def weight(self) -> int:
        return self._length

    def matters_later(self, text: str) -> bool:
        """Return True if the text's effect matters to later statements."""
        return may_keep(text)

    def record_statement(self, text: str, *, by_protocol: bool = False) -> None:
        """Record a forwarded text. The next `parse` reads it, possibly in another process."""
        if by_protocol or self._known.is_lost or not self.matters_later(text):
            return
        self._count += 1
        self._length += len(text)
        if self._count > MOST or self._length > MOST_LENGTH:
            self.record_gap()
        else:
            self._heard.append(text)

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        prepared_texts = self._looked_into().copy()
        judged: dict[str, tuple[Statement, ...]] = {}

        def one(tokens: list[SqlToken], judging: Judging) -> Statement:
            statement = judge(tokens, judging)
            if key_at(tokens, 0) in ("PREPARE", "EXECUTE"):
                texts = prepared_texts.find_prepared_texts(tokens)
                for text in texts or ():
                    if text not in judged:
                        judged[text] = self._parser.parse(text, schema)
                prepared = [statement for text in texts or () for statement in judged[text]]
                statement = self._run(statement, tokens, prepared, judging)
            prepared_texts.learn(tokens)
            return statement

        return judge_text(text, schema, one)

    def executed_statements(self, text: str, schema: TargetSchema | None = None) -> list[str]:
        """Return what the names that this text executes stand for, each once. The text was parsed before."""
        if "execute" not in text.lower():
            return []
        texts = self._looked_into().copy()
        prepared_texts: dict[str, None] = {}
        try:
            for reading in readings(text):
                for tokens in whole_statements(reading):
                    if key_at(tokens, 0) == "EXECUTE":
                        prepared_texts |= dict.fromkeys(texts.find_prepared_texts(tokens) or ())
                    texts.learn(tokens)
        except UnreadableSql:
            return []
        return list(prepared_texts)

    def _looked_into(self) -> PreparedTexts:
        heard, self._heard = self._heard, []
        for text in heard:
            self._known.begin()
            self._known.learn_text(text)
        return self._known

    def _run(
        self, execute: Statement, tokens: Sequence[SqlToken], prepared: Sequence[Statement], judging: Judging
    ) -> Statement:
        """Add the effects of the prepared statements. PREPARE has them too, so that no review is requested in vain."""
        if not prepared:
            return execute
        draft = Draft(execute.tag, {Effect.SESSION})
        judging.add_calls(draft, [word("SELECT"), *tokens])
        effects, objects, scans = frozenset(draft.effects), frozenset(draft.objects), execute.scans
        for statement in prepared:
            effects |= statement.effects
            objects |= statement.objects
            scans |= statement.scans
        return replace(
            prepared[0],
            tag=execute.tag,
            effects=effects,
            objects=objects,
            scans=scans,
            without_where=any(statement.without_where for statement in prepared),
            reason=draft.reason or next((statement.reason for statement in prepared if statement.reason), ""),
            untraced=next((statement.untraced for statement in prepared if statement.untraced), execute.untraced),
        )
