"""Lineage of one text, from its tokens: the columns of its answer, and what it leaves behind in the session.

The columns of a query come from its tree. Of a block of PL/SQL, only all that it reads is known: its variables can
carry any value into any other, and a loop can build one out of thousands of answers to "is it greater than …". So
everything that a block returns has the columns and conditions of all statements in it as its sources.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from postern.domain.rules.statement import Effect, ObjectKind
from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.lineage_resolver import LineageResolver
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Scope, Sources, WorkBudget, merge_sources, union
from postern.inspection.lineage.tree_translation import FOREIGN, unknown_function_name
from postern.inspection.sql.judging import Draft, Judging, add_defined_object, by_first_words, verb_of
from postern.inspection.sql.sql_tokens import SqlToken, UnreadableSql, closing, key_at, render, word
from postern.protocols.oracledb.dialect import oracle_words as words
from postern.protocols.oracledb.dialect.oracle_parser import QUERIES
from postern.protocols.oracledb.dialect.oracle_tokens import (
    BLOCKS,
    creates_code,
    has_code_in_with,
    pieces_of,
    scripts_of,
    tokens_of_text,
)
from postern.protocols.oracledb.dialect.oracle_views import query_of_view
from postern.protocols.oracledb.dialect.plsql_blocks import BlockPart, PartKind, parts_of_block, split_returning
from postern.protocols.oracledb.dialect.plsql_expressions import ForeignName, foreign_names
from postern.protocols.oracledb.dialect.plsql_names import LocalNames, constant_text
from postern.protocols.oracledb.lineage.oracle_builtins import (
    HARMLESS_KINDS,
    KEEPING,
    LOB_REQUESTS,
    OF_LOBS,
    RUNNING,
    SHOWING,
)
from postern.protocols.oracledb.lineage.oracle_lineage_catalogue import (
    OracleCatalogue,
    OracleState,
    Outs,
    SessionRelations,
)
from postern.protocols.oracledb.lineage.oracle_names import RULES, folded_name
from postern.protocols.oracledb.lineage.oracle_queries import OracleQueries
from postern.protocols.oracledb.lineage.oracle_spelling import SpelledOracle, spell_oracle

LOST: Final = (UNKNOWN,)
_DEEPEST: Final = 4  # texts that run texts
_CHANGED: Final = frozenset({ObjectKind.TABLE, ObjectKind.FUNCTION})
_MOST_NAMES: Final = 256
_NO_NAMES: Final = LocalNames()


@dataclass(frozen=True, slots=True)
class OracleRead:
    """The analysis of a text: the columns of each answer, and the session's state after it. `is_change`: its answer are
    the values that RETURNING lists, each by its place in the name of its column."""

    answers: tuple[Outs, ...]
    state: OracleState
    is_change: bool = False


class OracleStatements:
    """Analyses one text. `path` are the schemas of a name without one."""

    def __init__(self, catalogue: OracleCatalogue, state: OracleState, path: Sequence[str] = ()) -> None:
        self._catalogue = catalogue
        self._state = state
        self._path = path or catalogue.schema.search_path
        self._work = WorkBudget()
        self._judging = Judging(words.GRAMMAR, words.FUNCTIONS, catalogue.schema)
        self._answers: list[Outs] = []
        self._is_change = False
        self._depth = 0

    def read(self, text: str) -> OracleRead:
        for script in scripts_of(tokens_of_text(text)):
            for tokens in pieces_of(script):
                self._statement(tokens)
        return OracleRead(tuple(self._answers), self._state, self._is_change)

    def definition(self, text: str) -> list[Out]:
        """Return the columns of a view."""
        query, names = query_of_view(tokens_of_text(text))
        if verb_of(query) != "SELECT":
            raise UnreadableSql("the definition of a view is not understood")
        outs = self._query_outs(query)
        return [replace(out, name=None) for out in outs] if names else outs

    def expression(self, text: str, outs: Sequence[Out]) -> list[Out]:
        """Return the sources of an expression over the columns of one table."""
        spelled = self._spell([word("SELECT"), *tokens_of_text(text)], "SELECT", _NO_NAMES)
        queries = OracleQueries(spelled, self._work, self._state.held)
        return self._resolver().targets(queries.targets(spelled.tree.expressions), Scope(outs=list(outs)))

    # Statements

    def _statement(self, tokens: list[SqlToken]) -> None:
        self._work.step()
        try:
            self._read_statement(tokens)
        except UnreadableSql:
            # The target may understand what cannot be read here. Functions of the target may be in it.
            if key_at(tokens, 0) in (*QUERIES, "WITH", "(") and not has_code_in_with(tokens):
                self._hold(None)
            else:
                self._lose()
            self._answers.append(LOST)

    def _read_statement(self, tokens: list[SqlToken]) -> None:
        verb = verb_of(tokens)
        if key_at(tokens, 0) in BLOCKS:
            self._answers.append((Out(None, self._block_sources(tokens), many=True),))
        elif creates_code(tokens):
            self._define(tokens)
        elif has_code_in_with(tokens):
            raise UnreadableSql("it contains code")
        elif verb == "SELECT":
            self._select(tokens)
        elif verb in QUERIES:
            self._change(tokens, verb)
        elif verb == "CALL":
            self._call(tokens)
        else:
            self._other(tokens)

    def _call(self, tokens: list[SqlToken]) -> None:
        if render(tokens[1:4], '"', '"').replace(" ", "").upper() in LOB_REQUESTS and len(tokens) == 7:
            self._answers.append(LOST)
            return
        end = next((at for at, token in enumerate(tokens) if token.key == "INTO"), len(tokens))
        sources = self._sources_of([BlockPart(PartKind.CALL, tuple(tokens[1:end]), _NO_NAMES)])
        self._answers.append((Out(None, sources, many=True),))

    def _other(self, tokens: list[SqlToken]) -> None:
        """Analyse a statement without a query."""
        entry = by_first_words(tokens, words.STATEMENTS)
        if key_at(tokens, 0) in ("EXPLAIN", "CONNECT"):  # the catalogue is that of the login's database
            return
        if entry is None or Effect.UNKNOWN in entry[1]:
            raise UnreadableSql("it is not understood")
        listed = {token.key for token in tokens}
        if entry[0] == ("ALTER", "SESSION"):
            place = next((at for at, token in enumerate(tokens) if token.key == "CURRENT_SCHEMA"), len(tokens)) + 2
            names = frozenset({folded_name(tokens[place])} if place < len(tokens) and tokens[place].is_name else ())
            is_elsewhere = bool(listed & {"CONTAINER", "EDITION"}) or ("CURRENT_SCHEMA" in listed and not names)
            self._state = replace(
                self._state,
                moved=self._state.moved | names,
                everything=self._state.everything or is_elsewhere or len(self._state.moved) > _MOST_NAMES,
            )
        elif entry[1] & {Effect.DDL, Effect.GRANT, Effect.ADMIN}:
            self._define(tokens)

    def _define(self, tokens: list[SqlToken]) -> None:
        """Analyse CREATE, ALTER, DROP and their like: what they name means something else from now on."""
        first = tokens[0].key
        draft = Draft("")
        kind = add_defined_object(self._judging, draft, tokens)
        if first in ("GRANT", "REVOKE", "COMMENT", "TRUNCATE", "AUDIT", "NOAUDIT") or kind in HARMLESS_KINDS:
            return
        if first == "RENAME":
            self._judging.add_mentioned_names(draft, tokens)
            names = frozenset(folded_name(token) for token in tokens if token.is_name)
        else:
            names = frozenset(name.name for name in draft.objects if name.kind in _CHANGED)
        if creates_code(tokens):
            place = next((at for at, token in enumerate(tokens) if token.key in ("PACKAGE", "TYPE", "TRIGGER")), -1)
            names |= frozenset(folded_name(token) for token in tokens[place + 1 : place + 5] if token.is_name)
        state = self._state
        is_all = not names or len(names | state.names) > _MOST_NAMES
        self._state = replace(state, names=state.names | names, everything=state.everything or is_all)

    def _lose(self) -> None:
        """Record that something ran which cannot be analysed."""
        self._state = replace(self._state, everything=True, held=None)

    def _hold(self, sources: Sources) -> None:
        """Record that code may have left values from these sources in the session."""
        self._state = replace(self._state, held=union([self._state.held, sources]))

    # Queries

    def _pure(self, parts: tuple[str, ...]) -> bool:
        return self._catalogue.pure(parts, self._state)

    def _resolver(self, *, repeats: bool = False) -> LineageResolver:
        relations = SessionRelations(self._catalogue, self._state, self._path)
        return LineageResolver(RULES, relations, self._work, repeats=repeats)

    def _spell(self, tokens: Sequence[SqlToken], verb: str, names: LocalNames) -> SpelledOracle:
        """Spell a query. Functions of the target in it, or in a view, may leave anything in the session."""
        spelled = spell_oracle(tokens, verb, self._pure, names)
        if any(unknown_function_name(node) == FOREIGN for node in spelled.tree.find_all(exp.Anonymous)):
            self._catalogue.calls_functions = self._catalogue.calls_functions or self._is_view
            self._hold(None)
        return spelled

    _is_view = False

    def _query_outs(self, tokens: Sequence[SqlToken]) -> list[Out]:
        self._is_view = True
        spelled = self._spell(tokens, verb_of(tokens), _NO_NAMES)
        return self._resolver().query(OracleQueries(spelled, self._work, self._state.held).query(spelled.tree))

    def _select(self, tokens: list[SqlToken]) -> None:
        spelled = self._spell(tokens, "SELECT", _NO_NAMES)
        outs = self._resolver().query(OracleQueries(spelled, self._work, self._state.held).query(spelled.tree))
        self._follow_views(spelled.tree)
        if spelled.has_cursors:
            self._hold(merge_sources(outs))
            outs = [Out(None, merge_sources(outs), many=True)]
        # Settings that decide how a value is shown may hold another one.
        self._answers.append(LOST if self._state.everything else tuple(outs))

    def _follow_views(self, tree: exp.Expr) -> None:
        """Record that functions in views may have left anything in the session."""
        views = self._catalogue.views
        if self._catalogue.calls_functions and any(table.name in views for table in tree.find_all(exp.Table)):
            self._hold(None)

    def _change(self, tokens: list[SqlToken], verb: str) -> None:
        """Analyse a change. Triggers that it runs may leave anything in the session."""
        self._hold(None)
        plain, _ = split_returning(tokens)
        depth_keys = _keys_outside(plain)
        if "RETURNING" not in depth_keys and "RETURN" not in depth_keys:
            return
        self._is_change = True
        spelled = self._spell(plain, verb, _NO_NAMES)
        queries = OracleQueries(spelled, self._work, self._state.held)
        change = returning_of(queries, spelled.tree)
        is_lost = change is None or self._state.everything
        self._answers.append(LOST if is_lost else tuple(self._resolver().query(change)))

    # PL/SQL

    def _block_sources(self, tokens: Sequence[SqlToken]) -> Sources:
        """Return the sources of what a block returns: its cursors, and its variables. The client can give a cursor that
        it has got to a later block, and a sequence counts how often a block has asked for its value."""
        keys = {token.key for token in tokens}
        sources = self._sources_of(parts_of_block(tokens))
        if "FETCH" in keys:
            sources = union([sources, self._state.held])
        if keys & {"OPEN", "CURSOR", "NEXTVAL"}:
            self._hold(sources)
        return None if self._state.everything else sources

    def _sources_of(self, parts: Sequence[BlockPart]) -> Sources:
        """Return the sources of all that a block reads."""
        found: list[Sources] = []
        keeps = False
        for part in parts:
            tokens = list(part.tokens)
            if part.kind is PartKind.SQL:
                found.append(self._sql(tokens, part.names))
                continue
            for name in foreign_names(tokens, part.names):
                keeps = keeps or _full_name(name) in KEEPING
                found.append(self._foreign(name))
            if part.kind is PartKind.TEXT:
                found.append(self._text(constant_text(tokens, part.names)))
        sources = union(found)
        if keeps:
            self._hold(sources)
        return sources

    def _foreign(self, name: ForeignName) -> Sources:
        """Return the sources of a function, procedure or value that the block does not declare."""
        spelled = _full_name(name)
        if spelled in SHOWING:
            return self._state.held
        if spelled in KEEPING or spelled in OF_LOBS or self._pure(tuple(spelled.split("."))):
            return NOTHING
        if spelled.startswith(RUNNING) or name.parts[0] == "SYS":
            self._lose()
        self._hold(None)
        return None

    def _sql(self, tokens: list[SqlToken], names: LocalNames) -> Sources:
        verb = verb_of(tokens)
        if verb not in QUERIES:
            self._other(tokens)
            return NOTHING
        if verb != "SELECT":
            self._hold(None)
        found: list[Sources] = []
        for place, token in enumerate(tokens):
            if token.is_name and key_at(tokens, place + 1) == "(" and names.kind(token.text.upper()) is not None:
                inner = tokens[place + 2 : closing(tokens, place + 1)]
                found += [self._foreign(each) for each in foreign_names(inner, names)]
        spelled = self._spell(_without_fields(tokens, names), verb, names)
        queries = OracleQueries(spelled, self._work, self._state.held)
        query = queries.query(spelled.tree) if verb == "SELECT" else everything_of(queries, spelled.tree)
        outs, filters = self._resolver(repeats=True).filtered_query(query)
        self._follow_views(spelled.tree)
        return union([*found, merge_sources(outs), filters])

    def _text(self, text: str | None) -> Sources:
        """Return the sources of a text that the block runs."""
        if text is None or self._depth >= _DEEPEST:
            self._lose()
            return None
        self._depth += 1
        found: list[Sources] = []
        for script in scripts_of(tokens_of_text(text)):
            for tokens in pieces_of(script):
                if key_at(tokens, 0) in BLOCKS:
                    found.append(self._block_sources(tokens))
                elif creates_code(tokens):
                    self._define(tokens)
                elif has_code_in_with(tokens) or verb_of(tokens) == "CALL":
                    self._lose()
                    found.append(None)
                else:
                    found.append(self._sql(tokens, _NO_NAMES))
        self._depth -= 1
        return union(found)


def _full_name(name: ForeignName) -> str:
    parts = name.parts[1:] if name.parts[0] == "SYS" and len(name.parts) > 1 else name.parts
    return ".".join(parts)


def _keys_outside(tokens: Sequence[SqlToken]) -> set[str]:
    """Return the words outside of parentheses."""
    found: set[str] = set()
    depth = 0
    for token in tokens:
        depth += (token.key == "(") - (token.key == ")")
        if depth == 0:
            found.add(token.key)
    return found


def _without_fields(tokens: Sequence[SqlToken], names: LocalNames) -> list[SqlToken]:
    """Return a statement with `record.field` as one name that the block declares, unless it may be a table's column."""
    kept: list[SqlToken] = []
    place = 0
    standing = {folded_name(token) for at, token in enumerate(tokens) if token.is_name and _stands(tokens, at)}
    while place < len(tokens):
        token = tokens[place]
        is_record = (
            token.is_name
            and key_at(tokens, place - 1) != "."
            and key_at(tokens, place + 1) == "."
            and key_at(tokens, place + 3) != "."
            and names.kind(folded_name(token)) is not None
            and folded_name(token) not in standing
            and key_at(tokens, place - 1) not in ("FROM", "JOIN", "INTO", "UPDATE", "USING")
        )
        kept.append(token)
        place += 3 if is_record else 1
    return kept


def _stands(tokens: Sequence[SqlToken], place: int) -> bool:
    return key_at(tokens, place + 1) != "." and key_at(tokens, place - 1) != "."


def _target_of(queries: OracleQueries, tree: exp.Expr) -> rel.TableName | None:
    """Return the table that a change writes; None if that is unknown."""
    target = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if isinstance(tree, exp.Delete) and tree.args.get("tables"):
        target = tree.args["tables"][0]
    return queries.table_name(target)


def returning_of(queries: OracleQueries, tree: exp.Expr) -> rel.Query:
    """Return a change as a query of what RETURNING lists; None if it is not understood."""
    clause, target = tree.args.get("returning"), _target_of(queries, tree)
    if not isinstance(clause, exp.Returning) or target is None or isinstance(tree, exp.Merge):
        return None
    source = tree.args.get("expression")
    query = queries.query(source) if isinstance(tree, exp.Insert) and isinstance(source, exp.Expr) else None
    assigned: list[tuple[str, rel.Expression]] = []
    for each in tree.expressions if isinstance(tree, exp.Update) else ():
        if not isinstance(each, exp.EQ):
            return None
        column = each.this.name if isinstance(each.this, exp.Column) else ""
        assigned.append((column, queries.expressions.of(each.args["expression"])))
    change = rel.ChangeStatement(
        target,
        query=query,
        has_query=query is not None,
        is_loose=True,
        assigned=tuple(assigned),
        returning=queries.targets(clause.expressions),
    )
    return queries.with_ctes(tree, change)


def everything_of(queries: OracleQueries, tree: exp.Expr) -> rel.Query:
    """Return a query of all columns and queries in a change; None if it is not understood."""
    target = _target_of(queries, tree)
    if target is None or isinstance(tree, exp.MultitableInserts | exp.Merge):
        return None
    values: list[rel.Expression] = []
    waiting = [node for node in tree.iter_expressions() if not isinstance(node, exp.With)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, exp.Table | exp.Schema | exp.Identifier):
            continue
        is_value = isinstance(node, exp.Column | exp.Query | exp.Func | exp.Window)
        if is_value:
            values.append(queries.expressions.of(node))
        elif not isinstance(node, exp.Values):
            waiting += list(node.iter_expressions())
        else:
            waiting += [cell for row in node.expressions for cell in row.expressions or (row,)]
    query: rel.Query = rel.Select((rel.OutputColumn(None, rel.Made(tuple(values))),), (target,))
    return queries.with_ctes(tree, query)
