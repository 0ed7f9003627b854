"""The parser of Oracle Database: the effects of each statement of a text.

Oracle calls functions without arguments without parentheses, so that they look like columns. If the tables of a query
cannot have such a column, or the catalogue says that they do not, the effect is unknown; otherwise the name counts as a
column. Blocks of PL/SQL are read (`plsql_blocks`), with the statements in them and the texts that they run, as far as
these are constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import Key, TargetSchema
from postern.inspection.sql.identifier_folding import fold_identifier
from postern.inspection.sql.judging import Draft, Judging, add_defined_object, by_first_words, verb_of
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, closing, key_at
from postern.inspection.sql.sqlglot_tree import TreeFacts
from postern.protocols.oracledb.dialect import oracle_words as words
from postern.protocols.oracledb.dialect.oracle_plain import log_table, plain_query
from postern.protocols.oracledb.dialect.oracle_shapes import ORACLE_SHAPES
from postern.protocols.oracledb.dialect.oracle_tokens import (
    BLOCKS,
    creates_code,
    has_code_in_with,
    pieces_of,
    scripts_of,
    tokens_of_text,
)
from postern.protocols.oracledb.dialect.oracle_views import VIEWS
from postern.protocols.oracledb.dialect.plsql_blocks import BlockPart, PartKind, parts_of_block
from postern.protocols.oracledb.dialect.plsql_expressions import called_tokens, foreign_names, with_bound_names
from postern.protocols.oracledb.dialect.plsql_names import LocalNames, constant_text

QUERIES: Final = ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE")
_DEEPEST: Final = 4  # texts that run texts
_MOST_RUN: Final = 256 * 1024  # characters of the texts that one text runs


class OracleParser(Shared):
    """Implementation of the port `Parser`, for Oracle Database 12.1 and later."""

    dialect = "oracle"
    shapes = ORACLE_SHAPES

    def __init__(self) -> None:
        self._cache: TextCache[tuple[Statement, ...]] = TextCache()

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        return self._cache.of(text, schema, judge_text)


def judge_text(text: str, schema: TargetSchema | None, within: tuple[Key, ...] = ()) -> tuple[Statement, ...]:
    """Analyse a text. `within` are the views whose definitions led to it."""
    return _Judge(Judging(words.GRAMMAR, words.FUNCTIONS, schema, within)).text(text)


@dataclass
class _Judge:
    """Analyses a text and the texts that it runs."""

    judging: Judging
    _depth: int = 0
    _run: int = 0

    def text(self, text: str) -> tuple[Statement, ...]:
        try:
            found: list[Statement] = []
            for script in scripts_of(tokens_of_text(text)):
                for tokens in pieces_of(script):
                    found += self._piece(tokens)
            return tuple(found)
        except UnreadableSql as error:
            return (unknown(str(error)),)
        except (RecursionError, MemoryError):
            return (unknown("it is nested too deeply"),)

    def _piece(self, tokens: list[SqlToken]) -> list[Statement]:
        judging = self.judging
        if key_at(tokens, 0) in BLOCKS:
            return self._block(tokens)
        if creates_code(tokens):
            draft = Draft(tokens[0].key, {Effect.DDL})
            if any(token.key == "JAVA" for token in tokens[:6]):
                draft.add(Effect.ADMIN)
            draft.tag = f"{tokens[0].key} {add_defined_object(judging, draft, tokens)}"
            judging.add_mentioned_names(draft, tokens)
            return [draft.finish()]
        if has_code_in_with(tokens):
            return [unknown("it contains code", "WITH")]
        return [self._statement(tokens)]

    def _statement(self, tokens: list[SqlToken]) -> Statement:
        verb = verb_of(tokens)
        if verb in QUERIES:
            return self._query(tokens, verb)
        if verb == "EXPLAIN":
            return self._explain(tokens)
        if verb == "CALL":
            return self._call(tokens)
        entry = by_first_words(tokens, words.STATEMENTS)
        if entry is None:
            return unknown("its first words are not those of a known statement", key_at(tokens, 0))
        first, effects = entry
        draft, judging = Draft(" ".join(first), set(effects)), self.judging
        if Effect.UNKNOWN in effects:
            judging.add_calls(draft, tokens)
            draft.reason = f"{first[0]} runs code that is not in its text"
        elif first[0] in _DEFINITIONS:
            self._definition(draft, tokens)
        elif first[0] in ("GRANT", "REVOKE"):
            place = next((at for at, token in enumerate(tokens) if token.key == "ON"), len(tokens)) + 1
            judging.add_names(draft, tokens, place)
        elif first[0] == "RENAME":
            judging.add_names(draft, tokens, 1)
        judging.add_mentioned_names(draft, tokens)
        return draft.finish()

    def _query(self, tokens: list[SqlToken], verb: str) -> Statement:
        draft, judging = Draft(verb), self.judging
        plain = plain_query(tokens, verb)
        if plain != tokens:
            judging.add_calls(draft, tokens if verb == "MERGE" else [*_left_out(tokens)])
        log = log_table(tokens)
        if log > 0:
            judging.add_names(draft, tokens, log)
        if any(token.text.upper() == "NEXTVAL" and key_at(tokens, at - 1) == "." for at, token in enumerate(tokens)):
            draft.add(Effect.WRITE)
        facts = judging.add_query(draft, plain, verb)
        if facts is not None:
            self._check_bare_names(draft, facts)
            recursive = _recursive_names(tokens)
            read = [name for name in facts.read if name.schema or name.name not in recursive]
            VIEWS.follow(draft, read, judging.schema, judging.within, judge_text)
        _check_hidden_tables(draft, tokens)
        return draft.finish()

    def _check_bare_names(self, draft: Draft, facts: TreeFacts) -> None:
        """Judge the columns that may be functions without arguments."""
        tables = {name.name for name in facts.objects if name.kind is ObjectKind.TABLE}
        schemas = {name.schema for name in facts.objects if name.kind is ObjectKind.TABLE and name.schema}
        functions = _functions_of_target(self.judging.schema)
        columns: frozenset[str] | None = None
        for qualifier, name in facts.columns:
            if name.upper() in _PSEUDOCOLUMNS:
                continue
            may_be_function = False
            if qualifier and qualifier.upper() not in facts.sources | schemas:
                effects = words.FUNCTIONS.packages.get(qualifier.upper())
                draft.effects |= effects or set()
                may_be_function = True
            elif not qualifier and tables <= {"DUAL"} and draft.tag == "SELECT" and not facts.derived:
                may_be_function = True
            elif fold_identifier(name) in functions or (qualifier and fold_identifier(qualifier) in functions):
                columns = _columns_of(facts, self.judging.schema) if columns is None else columns
                may_be_function = fold_identifier(name) not in columns
            if may_be_function:
                spelled = f"{qualifier}.{name}" if qualifier else name
                draft.unknown(f"{spelled} is not a column of what it reads, and can be a function")

    def _explain(self, tokens: list[SqlToken]) -> Statement:
        """Judge EXPLAIN PLAN, which stores a plan in a table and does not run the statement."""
        place = next((at for at, token in enumerate(tokens) if token.key == "FOR"), len(tokens))
        draft = Draft("EXPLAIN PLAN", {Effect.READ, Effect.WRITE})
        into = next((at for at, token in enumerate(tokens[:place]) if token.key == "INTO"), place)
        self.judging.add_names(draft, tokens[:place], into + 1)
        inner = tokens[place + 1 :]
        if verb_of(inner) in QUERIES:
            query = self._query(inner, verb_of(inner))
            draft.objects |= query.objects
            draft.untraced = query.untraced
        return draft.finish()

    def _definition(self, draft: Draft, tokens: list[SqlToken]) -> None:
        judging = self.judging
        kind = add_defined_object(judging, draft, tokens)
        if len(draft.tag.split()) == 1 and kind.isalpha():
            draft.tag = f"{tokens[0].key} {kind}"
        listed = [token.key for token in tokens]
        if draft.tag == "ALTER SESSION" and ({"EVENTS", "CONTAINER"} & set(listed)):
            draft.add(Effect.ADMIN)
        if "LINK" in listed[1:5] and "DATABASE" in listed[1:4]:
            draft.objects = set()
            draft.add(Effect.ADMIN)
        if kind == "INDEX" or "INDEX" in listed[1:4]:
            place = next((at for at, key in enumerate(listed) if key == "ON"), len(tokens)) + 1
            judging.add_names(draft, tokens, place)
        if tokens[0].key != "CREATE" or kind not in ("TABLE", "VIEW", "MATERIALIZED"):
            return
        if "PREPROCESSOR" in listed:
            draft.add(Effect.ADMIN)  # a program that the server starts for an external table
        place = _query_after_as(listed)
        if not place:
            return
        inner = tokens[place + 1 :]
        if verb_of(inner) != "SELECT":
            draft.unknown("the query that it is created from is not understood")
            return
        query = self._query(inner, "SELECT")
        draft.objects |= query.objects
        runs = kind == "TABLE" or "MATERIALIZED" in listed[:6]
        draft.effects |= query.effects | {Effect.WRITE} if runs else query.effects - {Effect.READ}
        draft.scans |= query.scans if runs else set()
        draft.reason, draft.untraced = query.reason, query.untraced
        draft.is_view_calling = query.is_view_calling

    # PL/SQL

    def _block(self, tokens: list[SqlToken]) -> list[Statement]:
        """Judge a block as a statement of its own, with its calls, and the statements in it."""
        draft = Draft(key_at(tokens, 0) if key_at(tokens, 0) != "<<" else "BEGIN")
        judging = self.judging
        try:
            parts = parts_of_block(tokens)
            draft.add(Effect.SESSION)
            draft.objects |= _members_of_dbms_sql(tokens)
            found: list[Statement] = []
            for part in parts:
                found += self._part(draft, part)
        except UnreadableSql as error:
            found = []
            draft.effects &= {Effect.ADMIN}
            draft.unknown(f"it runs a block of code that is not understood: {error}")
            judging.add_calls(draft, tokens)
            draft.effects &= {Effect.ADMIN, Effect.UNKNOWN}
            judging.add_mentioned_names(draft, tokens)
        return [draft.finish(), *found]

    def _part(self, draft: Draft, part: BlockPart) -> Sequence[Statement]:
        """Add the calls of one part to its block. Return the statements that it runs."""
        tokens = list(part.tokens)
        if part.kind is PartKind.SQL:
            bound = with_bound_names(tokens, part.names)
            self._add_calls_in_elements(draft, tokens, part.names)
            return [self._statement(bound)]
        self._add_foreign(draft, tokens, part.names)
        if part.kind is not PartKind.TEXT:
            return ()
        text = constant_text(tokens, part.names)
        self._run += len(text or "")
        if text is None or self._depth >= _DEEPEST or self._run > _MOST_RUN:
            draft.unknown("it runs code that is not in its text")
            return ()
        self._depth += 1
        statements = self.text(text)
        self._depth -= 1
        return statements or (unknown("it runs a text without a statement"),)

    def _add_foreign(self, draft: Draft, tokens: Sequence[SqlToken], names: LocalNames) -> None:
        for name in foreign_names(tokens, names):
            self.judging.add_calls(draft, called_tokens(name))

    def _add_calls_in_elements(self, draft: Draft, tokens: Sequence[SqlToken], names: LocalNames) -> None:
        """Add the calls in the indexes of collections, which are left out of the statement."""
        for place, token in enumerate(tokens):
            if token.is_name and key_at(tokens, place + 1) == "(" and names.kind(token.text.upper()) is not None:
                self._add_foreign(draft, tokens[place + 2 : closing(tokens, place + 1)], names)

    def _call(self, tokens: list[SqlToken]) -> Statement:
        """Judge CALL, which runs a procedure, or a function with a variable for its result."""
        draft = Draft("CALL", {Effect.SESSION})
        end = next((at for at, token in enumerate(tokens) if token.key == "INTO"), len(tokens))
        if not tokens[1:end] or any(token.kind is not SqlTokenKind.VARIABLE for token in tokens[end + 1 :]):
            return unknown("it is not understood", "CALL")
        self._add_foreign(draft, tokens[1:end], LocalNames())
        if Effect.UNKNOWN in draft.effects:
            draft.reason = draft.reason or "CALL runs code that is not in its text"
        return draft.finish()


_DEFINITIONS: Final = frozenset({"CREATE", "ALTER", "DROP", "TRUNCATE", "PURGE", "FLASHBACK", "COMMENT", "LOCK"})
_PSEUDOCOLUMNS: Final = words.BARE_NAMES | {"NEXTVAL", "CURRVAL", "*"}
_QUERIES_OF_XML: Final = frozenset({"XMLQUERY", "XMLTABLE", "XMLEXISTS"})
_READING: Final = ("collection", "ora:", "oradb:", "doc", "view", "import", "declare")


def _left_out(tokens: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """Return the tokens for a search of calls in what the plain spelling leaves out: all from the first such clause on.
    In front of it stands a word, so that a call at the beginning is one."""
    place = next((at for at, token in enumerate(tokens) if token.key in ("LOG", "VERSIONS")), len(tokens))
    return tokens[max(0, place - 1) :] if place < len(tokens) else ()


def _members_of_dbms_sql(tokens: Sequence[SqlToken]) -> set[ObjectName]:
    """Return what a block uses of DBMS_SQL, which its parts do not show."""
    return {
        ObjectName(ObjectKind.FUNCTION, tokens[place + 2].text.lower(), "dbms_sql")
        for place in range(len(tokens) - 2)
        if tokens[place].key == "DBMS_SQL" and tokens[place + 1].key == "."
    }


def _recursive_names(tokens: Sequence[SqlToken]) -> frozenset[str]:
    """Return the names of queries in WITH that list their columns, and so can be recursive."""
    return frozenset(
        token.text.upper() if token.kind is SqlTokenKind.WORD else token.text
        for place, token in enumerate(tokens)
        if token.is_name and key_at(tokens, place + 1) == "(" and _is_cte(tokens, closing(tokens, place + 1))
    )


def _is_cte(tokens: Sequence[SqlToken], close: int) -> bool:
    return key_at(tokens, close + 1) == "AS" and key_at(tokens, close + 2) == "("


def reads_hidden_tables(tokens: Sequence[SqlToken]) -> bool:
    """Return whether an XQuery may read tables that it names in its text."""
    for place, token in enumerate(tokens):
        if token.key in _QUERIES_OF_XML and key_at(tokens, place + 1) == "(":
            strings = [
                each.content for each in tokens[place : closing(tokens, place + 1)] if each.kind is SqlTokenKind.STRING
            ]
            if not strings or strings[0] is None or any(word in strings[0].lower() for word in _READING):
                return True
    return False


def _check_hidden_tables(draft: Draft, tokens: Sequence[SqlToken]) -> None:
    if reads_hidden_tables(tokens):
        draft.untraced = draft.untraced or "the tables that an XQuery reads are unknown"


@lru_cache(maxsize=16)
def _functions_of_target(schema: TargetSchema | None) -> frozenset[str]:
    """Return the target's own functions that may change something, by their last names."""
    if schema is None:
        return frozenset()
    return frozenset(
        fold_identifier(function.name.rpartition(".")[2])
        for function in schema.functions.values()
        if not function.harmless
    )


def _columns_of(facts: TreeFacts, schema: TargetSchema | None) -> frozenset[str]:
    """Return the columns of the relations that a query reads, by every relation of such a name."""
    names = {fold_identifier(name.name) for name in facts.objects if name.kind is ObjectKind.TABLE}
    relations = schema.relations.values() if schema is not None else ()
    return frozenset(
        fold_identifier(column)
        for relation in relations
        if fold_identifier(relation.name) in names
        for column in relation.columns
    )


def _query_after_as(listed: Sequence[str]) -> int:
    for place in range(2, len(listed) - 1):
        if listed[place] == "AS" and listed[place + 1] in ("SELECT", "WITH", "("):
            return place
    return 0
