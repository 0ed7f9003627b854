"""The parser of T-SQL (SQL Server, Azure SQL): the effects of each statement of a text.

Statements need no semicolons between them, and a text can have several batches. Text in double quotes is read as a name
and as a string, because a session chooses which (`tsql_batches`). The text that EXEC runs is judged as well if the
batch contains it (`tsql_texts`); otherwise the effect is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.sql.judging import Draft, Judging, add_defined_object, by_first_words, verb_of
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.inspection.sql.sql_tokens import (
    SqlToken,
    SqlTokenKind,
    UnreadableSql,
    closing,
    key_at,
    word,
)
from postern.inspection.sql.sqlglot_tree import TreeFacts
from postern.protocols.mssql.dialect import tsql_words as words
from postern.protocols.mssql.dialect.tsql_batches import Batch, readings, statements
from postern.protocols.mssql.dialect.tsql_exec import PREPARED_PROCEDURES, parse_exec
from postern.protocols.mssql.dialect.tsql_plain import plain_query
from postern.protocols.mssql.dialect.tsql_shapes import TSQL_SHAPES
from postern.protocols.mssql.dialect.tsql_texts import BatchTexts
from postern.protocols.mssql.dialect.tsql_views import VIEWS, query_of_view

_DEEPEST: Final = 4  # texts that run texts
_MOST_RUN: Final = 256 * 1024  # characters of the texts that one text runs

Prepared = Callable[[], Sequence[Statement] | None]
"""Returns the statements that the session has prepared; None if they are unknown."""


class TSqlParser(Shared):
    """Implementation of the port `Parser`, for SQL Server 2012 and later."""

    dialect = "tsql"
    shapes = TSQL_SHAPES

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        return self._cache.of(text, schema, judge_text)


def judge_text(
    text: str, schema: TargetSchema | None, within: tuple[Key, ...] = (), prepared: Prepared | None = None
) -> tuple[Statement, ...]:
    """Analyse a text. `within` are the views whose definitions led to it."""
    judging = Judging(words.GRAMMAR, words.FUNCTIONS, schema, within)
    return _Judge(judging, prepared).text(text)


def creates_code(tokens: Sequence[SqlToken]) -> bool:
    """Return whether the rest of the batch is the body of a procedure, function or trigger."""
    if key_at(tokens, 0) not in ("CREATE", "ALTER"):
        return False
    return key_at(tokens, 1) in _CODE or (key_at(tokens, 1) == "OR" and key_at(tokens, 3) in _CODE)


def has_loop(batch: Sequence[SqlToken]) -> bool:
    return any(token.key in ("WHILE", "GOTO") for token in batch)


def texts_of_batch(batch: Sequence[SqlToken]) -> BatchTexts:
    """Return the texts of a batch's variables, before its first statement."""
    is_straight = not any(token.key in ("IF", "ELSE", "WHILE", "GOTO", "TRY", "CATCH") for token in batch)
    return BatchTexts(loops=has_loop(batch), straight=is_straight)


_CODE = frozenset({"PROCEDURE", "PROC", "FUNCTION", "TRIGGER"})
QUERIES: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE")


@dataclass
class _Judge:
    """Analyses a text and the texts that it runs."""

    judging: Judging
    prepared: Prepared | None
    _texts: BatchTexts = field(default_factory=BatchTexts)
    _depth: int = 0
    _run: int = 0

    def text(self, text: str) -> tuple[Statement, ...]:
        try:
            first, *others = [self._batches(batches) for batches in readings(text)]
        except UnreadableSql as error:
            return (unknown(str(error)),)
        except (RecursionError, MemoryError):
            return (unknown("it is nested too deeply"),)
        for other in others:
            # With strings for names, the text is mostly not valid. If it is, it does no more than with names.
            if _is_known(first) and not _is_known(other):
                continue
            seen = set(first)
            first = (*first, *(statement for statement in other if statement not in seen))
        return first

    def _batches(self, batches: Sequence[Batch]) -> tuple[Statement, ...]:
        found: list[Statement] = []
        before = self._texts
        for batch in batches:
            self._texts = texts_of_batch(batch)
            found += self._batch(batch)
        self._texts = before
        return tuple(found)

    def _batch(self, batch: Batch) -> list[Statement]:
        parsed: list[Statement] = []
        for place, tokens in enumerate(pieces := statements(batch)):
            if creates_code(tokens):
                rest = [token for each in pieces[place:] for token in each]
                draft = Draft(tokens[0].key, {Effect.DDL})
                draft.tag = f"{tokens[0].key} {add_defined_object(self.judging, draft, rest)}"
                self.judging.add_mentioned_names(draft, rest)
                return [*parsed, draft.finish()]  # its body is the rest of the batch
            parsed.append(self._statement(tokens))
            self._texts.learn(tokens)
        return parsed

    def _statement(self, tokens: list[SqlToken]) -> Statement:
        judging, verb = self.judging, verb_of(tokens)
        entry = by_first_words(tokens, words.STATEMENTS)
        if verb in QUERIES and (entry is None or len(entry[0]) == 1):
            return self._query(tokens, verb)
        if verb in ("EXEC", "EXECUTE") and entry is None:
            return self._exec(tokens)
        if entry is None:
            if tokens[0].is_name and key_at(tokens, 0) not in ("WITH", "RECEIVE"):
                return self._exec(tokens)  # at the start of a batch, a procedure needs no EXEC
            return unknown("its first words are not those of a known statement", key_at(tokens, 0))
        first, effects = entry
        draft = Draft(" ".join(first), set(effects))
        if first[0] in ("CREATE", "ALTER", "DROP", "TRUNCATE"):
            self._definition(draft, tokens)
        elif first[0] in ("GRANT", "DENY", "REVOKE"):
            place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
            judging.add_names(draft, tokens, place)
        else:
            self._plain(draft, tokens)
        judging.add_mentioned_names(draft, tokens)
        return draft.finish()

    def _query(self, tokens: list[SqlToken], verb: str) -> Statement:
        draft, judging = Draft(verb), self.judging
        plain = plain_query(tokens, judging.schema)
        if verb == "DELETE":
            plain = _without_output(draft, plain, judging)
        run = next((at for at, token in enumerate(plain) if token.key in ("EXEC", "EXECUTE") and at > 1), 0)
        if verb == "INSERT" and run:
            _include(draft, self._exec(plain[run:]))
            draft.add(Effect.WRITE)
            judging.add_names(draft, plain, 1 + (key_at(plain, 1) == "INTO"))
            return draft.finish()
        if verb == "SELECT" and len(plain) > 1 and _assigns(plain):
            draft.add(Effect.SESSION)
        self._add_query(draft, plain, verb)
        _add_remote_targets(draft, plain)
        return draft.finish()

    def _add_query(self, draft: Draft, tokens: Sequence[SqlToken], verb: str) -> TreeFacts | None:
        """Add the effects of a query and of the views in it."""
        facts = self.judging.add_query(draft, tokens, verb)
        if facts is not None:
            VIEWS.follow(draft, facts.read, self.judging.schema, self.judging.within, _judge_definition)
        return facts

    def _exec(self, tokens: list[SqlToken]) -> Statement:
        """Judge EXEC, or a procedure that is called without it."""
        draft, call, judging = Draft("EXECUTE"), parse_exec(tokens), self.judging
        if call.name:
            name = call.name[-1].lower()
            schema = call.name[-2].lower() if len(call.name) > 1 else ""
            draft.objects.add(ObjectName(ObjectKind.FUNCTION, name, schema))
            judging.add_calls(draft, [word("EXEC"), *[each for part in call.arguments for each in part.value]])
        if call.is_elsewhere:
            draft.unknown("it runs code on another server or as another user")
        elif call.runs_text:
            self._run_texts(draft, call.texts(self._texts))
            if not draft.effects or call.procedure not in ("", "sp_executesql"):
                draft.add(Effect.SESSION)
        elif call.procedure in PREPARED_PROCEDURES:
            self._run_prepared(draft)
        elif not call.name:
            draft.unknown("it runs code that is not in its text")
        elif call.procedure in words.PROCEDURES:
            judging.add_names_in_strings(draft, tokens)
            draft.effects |= words.PROCEDURES[call.procedure]
        else:
            judging.add_names_in_strings(draft, tokens)
            draft.unknown(f"it runs the procedure {'.'.join(call.name)}, whose effect is unknown")
        return draft.finish()

    def _run_texts(self, draft: Draft, texts: Sequence[str] | None) -> None:
        """Add the effects of the texts that a statement runs."""
        self._run += sum(map(len, texts or ()))
        if texts is None or self._depth >= _DEEPEST or self._run > _MOST_RUN:
            draft.unknown("it runs code that is not in its text")
            return
        self._depth += 1
        for text in texts:
            for statement in self.text(text):
                _include(draft, statement)
        self._depth -= 1

    def _run_prepared(self, draft: Draft) -> None:
        """Add the effects of everything that the session has prepared."""
        prepared = None if self.prepared is None else self.prepared()
        if not prepared:
            draft.unknown("it runs a prepared statement whose text is unknown")
        for statement in prepared or ():
            _include(draft, statement)

    def _definition(self, draft: Draft, tokens: list[SqlToken]) -> None:
        judging = self.judging
        kind = add_defined_object(judging, draft, tokens)
        if len(draft.tag.split()) == 1 and kind.isalpha():
            draft.tag = f"{tokens[0].key} {kind}"
        if kind == "INDEX" or (kind != "TABLE" and key_at(tokens, 2) == "INDEX"):
            place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
            judging.add_names(draft, tokens, place)
        has_query = any(
            token.key in ("SELECT", "WITH") and key_at(tokens, at - 1) == "AS" for at, token in enumerate(tokens)
        )
        if kind == "VIEW" and has_query:
            inner, _ = query_of_view(tokens)
            query = self._query(inner, verb_of(inner))
            draft.objects |= query.objects
            draft.effects |= query.effects - {Effect.READ}
            draft.reason, draft.untraced = query.reason, query.untraced
            draft.is_view_calling = query.is_view_calling
        elif has_query:
            draft.unknown("the query that it is created from is not understood")

    def _plain(self, draft: Draft, tokens: list[SqlToken]) -> None:
        first, judging = tokens[0].key, self.judging
        plain = plain_query(tokens, judging.schema)
        judging.add_calls(draft, plain if first != "INSERT" else ())  # INSERT BULK lists columns and their types
        place = next((at for at, token in enumerate(plain) if token.key == "SELECT"), 0)
        if first in ("IF", "WHILE"):
            self._condition(draft, plain[1:])
        elif first == "ELSE" and len(tokens) > 1:
            draft.unknown("the statement after ELSE is not understood")
        elif first in ("BEGIN", "END") and len(tokens) > 1:
            _body(draft, tokens)
        elif first == "DECLARE" and key_at(plain, place - 1) == "FOR":
            self._add_query(draft, plain[place:], "SELECT")
        elif first == "WAITFOR" and key_at(tokens, 1) not in ("DELAY", "TIME"):
            draft.unknown("it waits for something unknown")
        elif first == "BULK" or first == "INSERT":
            judging.add_names(draft, tokens, 2)
            draft.tag = f"{first} {tokens[1].key}"
        elif first == "USE" and len(tokens) == 2:
            draft.objects.add(ObjectName(ObjectKind.SCHEMA, tokens[1].text.lower()))
        elif first == "RAISERROR" and "LOG" in {token.key for token in tokens}:
            draft.add(Effect.ADMIN)
        elif first == "UPDATE":
            judging.add_names(draft, tokens, 2)
        elif place:
            inside = closing(plain, place - 1) if key_at(plain, place - 1) == "(" else place
            if inside > place:
                self._add_query(draft, plain[place:inside], "SELECT")
            else:
                draft.unknown("it is not understood")

    def _condition(self, draft: Draft, tokens: list[SqlToken]) -> None:
        """Judge the condition of IF or WHILE like that of a query."""
        if not tokens:
            draft.unknown("it has no condition")
            return
        query = [word("SELECT"), SqlToken(SqlTokenKind.NUMBER, "1"), word("WHERE"), *tokens]
        facts = self._add_query(draft, query, "SELECT")
        if facts is not None and not facts.objects:
            draft.effects.discard(Effect.READ)


def _is_known(statements_of_reading: Sequence[Statement]) -> bool:
    return not any(Effect.UNKNOWN in statement.effects for statement in statements_of_reading)


def _include(draft: Draft, statement: Statement) -> None:
    """Add the effects of a statement that another one runs."""
    draft.effects |= statement.effects
    draft.objects |= statement.objects
    draft.scans |= statement.scans
    draft.without_where |= statement.without_where
    draft.reason = draft.reason or statement.reason
    draft.untraced = draft.untraced or statement.untraced
    draft.is_view_calling |= statement.is_view_calling


def _judge_definition(definition: str, schema: TargetSchema, within: tuple[Key, ...]) -> tuple[Statement, ...]:
    """Judge the query of a view, whose definition has more around it."""
    found = judge_text(definition, schema, within)
    return tuple([_as_read(statement) for statement in found])


def _as_read(statement: Statement) -> Statement:
    """Return the statement that reading a view runs, for the one that created it."""
    if Effect.DDL not in statement.effects:
        return statement
    effects = (statement.effects - {Effect.DDL}) | {Effect.READ}
    return replace(statement, tag="SELECT", effects=effects, without_where=False, scans=frozenset())


def _add_remote_targets(draft: Draft, tokens: Sequence[SqlToken]) -> None:
    """Add the effects of a rowset of another server that a change names as its target, which is no call."""
    for place, token in enumerate(tokens):
        if token.key in _REMOTE and key_at(tokens, place + 1) == "(":
            draft.effects |= words.FUNCTIONS.effects[token.key]
            draft.reason = draft.reason or f"it runs {token.key}, whose effect is unknown"


_REMOTE: Final = frozenset({"OPENDATASOURCE", "OPENQUERY", "OPENROWSET"})


def _assigns(tokens: Sequence[SqlToken]) -> bool:
    return any(token.kind is SqlTokenKind.VARIABLE and key_at(tokens, at + 1) == "=" for at, token in enumerate(tokens))


def _without_output(draft: Draft, tokens: list[SqlToken], judging: Judging) -> list[SqlToken]:
    """Remove the OUTPUT of a DELETE, which sqlglot does not know; its facts are added to the draft."""
    start = next((at for at, token in enumerate(tokens) if token.key == "OUTPUT"), 0)
    if start == 0:
        return tokens
    end = start
    while end < len(tokens) and key_at(tokens, end) not in ("WHERE", "FROM", "OPTION"):
        if tokens[end].key == "SELECT":
            raise UnreadableSql("a query in an OUTPUT clause is not understood")
        if tokens[end].key == "INTO":
            judging.add_names(draft, tokens, end + 1)
        end += 1
    draft.add(Effect.READ)
    judging.add_calls(draft, tokens[start:end])
    return tokens[:start] + tokens[end:]


_OF_BLOCKS = frozenset({"TRY", "CATCH", "TRAN", "TRANSACTION"})


def _body(draft: Draft, tokens: list[SqlToken]) -> None:
    """Judge tokens after BEGIN or END that do not start a statement, such as the name of a procedure."""
    rest = tokens[2:] if key_at(tokens, 1) in _OF_BLOCKS else tokens[1:]
    if not rest or key_at(tokens, 1) in ("TRAN", "TRANSACTION", "DISTRIBUTED") or rest[0].key == "THROW":
        return
    draft.unknown("the text after it is not understood")
