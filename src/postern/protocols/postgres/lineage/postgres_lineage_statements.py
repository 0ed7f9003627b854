"""Lineage of whole statements: their result columns, the names that they store, and their effect on the meaning of
names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from postern.inspection.lineage.lineage_resolver import LineageResolver
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Scope, WorkBudget
from postern.inspection.sql.postgres.postgres_tree import Message, children, node
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import (
    NO_DOUBTS,
    RULES,
    CatalogueDoubts,
    DoubtedTables,
    PostgresLineageCatalogue,
)
from postern.protocols.postgres.lineage.postgres_lineage_expressions import strings
from postern.protocols.postgres.lineage.postgres_lineage_queries import PostgresQueries


class KeptNames(Enum):
    CURSOR = "cursor"
    PREPARED = "prepared"


@dataclass(frozen=True, slots=True)
class Read:
    """The analysis of one statement. `outs` are the columns of its result, None without a result.

    `shows` is the name of a stored query whose rows it returns. `keeps` is the name that it stores; `outs` are then
    that query's columns. `doubts` are the doubts after it.
    """

    outs: tuple[Out, ...] | None = None
    shows: tuple[KeptNames, str] | None = None
    keeps: tuple[KeptNames, str] | None = None
    doubts: CatalogueDoubts = NO_DOUBTS


# Statements that do not change tables, views and functions.
_HARMLESS_WORDS: Final = """
    AlterDefaultPrivilegesStmt AlterRoleSetStmt AlterRoleStmt AlterSeqStmt AlterSystemStmt CallStmt
    CheckPointStmt ClosePortalStmt ClusterStmt CommentStmt ConstraintsSetStmt CopyStmt CreateDomainStmt
    CreateEnumStmt CreateRoleStmt CreateStatsStmt CreateTrigStmt CreatedbStmt DeallocateStmt DeclareCursorStmt
    DeleteStmt DropRoleStmt DropdbStmt ExecuteStmt FetchStmt GrantRoleStmt GrantStmt IndexStmt InsertStmt
    ListenStmt LoadStmt LockStmt MergeStmt NotifyStmt PrepareStmt RefreshMatViewStmt ReindexStmt SecLabelStmt
    SelectStmt TransactionStmt TruncateStmt UnlistenStmt UpdateStmt VacuumStmt VariableShowStmt
"""
_HARMLESS: Final = frozenset(_HARMLESS_WORDS.split())

# Fields with the name of a table or view that is created or changed.
_MAKES: Final = {
    "AlterTableStmt": ("relation",),
    "CreateForeignTableStmt": ("base", "relation"),
    "CreateSeqStmt": ("sequence",),
    "CreateStmt": ("relation",),
    "CreateTableAsStmt": ("into", "rel"),
    "ViewStmt": ("view",),
}

Messages = list[tuple[str, Message]]

_PATH: Final = frozenset({"search_path", "role", "session_authorization"})


class Statements:
    """The analysis of one text. `sets`: one of its queries may change a setting."""

    def __init__(self, catalogue: PostgresLineageCatalogue, doubts: CatalogueDoubts, *, sets: bool = False) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._sets = sets
        self._work = WorkBudget()
        self._queries = PostgresQueries(catalogue, doubts, self._work)
        self._resolver = LineageResolver(RULES, DoubtedTables(catalogue, doubts), self._work)

    def read(self, statement: Message) -> Read:
        kind, message = node(statement)
        if not kind:
            return Read()
        doubts = self._doubts_after(kind, message)
        if kind == "DeclareCursorStmt":
            return Read(
                self._rows(message.get("query")), keeps=(KeptNames.CURSOR, message["portalname"]), doubts=doubts
            )
        if kind == "PrepareStmt":
            return Read(self._rows(message.get("query")), keeps=(KeptNames.PREPARED, message["name"]), doubts=doubts)
        if kind == "FetchStmt":
            cursor = None if message.get("ismove") else (KeptNames.CURSOR, message.get("portalname", ""))
            return Read(shows=cursor, doubts=doubts)
        if kind == "ExecuteStmt":
            return Read(shows=(KeptNames.PREPARED, message.get("name", "")), doubts=doubts)
        return Read(self._rows(statement), doubts=doubts)

    def expression(self, column: Message, outs: list[Out]) -> list[Out]:
        """Return the sources of an expression over the columns of one table."""
        return self._resolver.targets(self._queries.targets([column]), Scope(outs=outs))

    def _rows(self, statement: Message | None) -> tuple[Out, ...] | None:
        kind, message = node(statement)
        if kind == "SelectStmt":
            return None if "intoClause" in message else self._query(statement)
        if kind in ("InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"):
            return self._query(statement) if message.get("returningClause", {}).get("exprs") else None
        if kind == "CopyStmt":
            return None if message.get("is_from") else self._trace_copy(message)
        if kind == "VariableShowStmt":
            return self._trace_show(message.get("name", ""))
        if kind == "ExplainStmt":
            return self._trace_explain(message)
        return (UNKNOWN,) if kind == "CallStmt" else None

    def _query(self, query: Message | None) -> tuple[Out, ...]:
        return tuple(self._resolver.query(self._queries.query(query)))

    def _trace_copy(self, copy: Message) -> tuple[Out, ...]:
        if "query" in copy:
            return self._query(copy["query"])
        table = copy.get("relation", {})
        relation = self._catalogue.relation(table.get("schemaname", ""), table.get("relname", ""), self._doubts)
        if relation is None:
            return (UNKNOWN,)
        outs = {out.name: out for out in self._catalogue.outs(relation)}
        listed = strings(copy.get("attlist"))
        names = listed or [name for name in relation.columns if name and name not in relation.generated]
        return tuple(outs.get(name, Out(name, None)) for name in names)

    def _trace_show(self, name: str) -> tuple[Out, ...]:
        if name.lower() == "all":
            return (Out("name", NOTHING), Out("setting", None), Out("description", NOTHING))
        return (Out(name, self._queries.expressions.setting(name)),)

    def _trace_explain(self, explain: Message) -> tuple[Out, ...]:
        """Return the column of EXPLAIN: a plan quotes constants, and results of functions that planning called."""
        kind, query = node(explain.get("query"))
        within = self._within(kind, query)
        trusted = kind != "ExecuteStmt" and not self._runs_code(kind, within)
        ctes = {part.get("ctename", "") for sort, part in within if sort == "CommonTableExpr"}
        for sort, part in within:
            name = part.get("relname", "")
            if sort == "RangeVar" and self._catalogue.tells(name, part.get("schemaname", ""), self._doubts):
                trusted = trusted and name in ctes
        return (Out("QUERY PLAN", NOTHING if trusted else None),)

    def _runs_code(self, kind: str, within: Messages) -> bool:
        """Return True if it runs code that cannot be analysed."""
        return kind in ("DoStmt", "CallStmt") or any(
            sort == "FuncCall" and not self._catalogue.pure(strings(child.get("funcname")), self._doubts)
            for sort, child in within
        )

    def _writes_settings(self, within: Messages) -> bool:
        """Return True if a query may store what it has read in a setting."""
        for sort, child in within:
            if sort == "UpdateStmt" and child.get("relation", {}).get("relname") == "pg_settings":
                return True
            if sort == "FuncCall" and strings(child.get("funcname"))[-1:] == ("set_config",):
                of, value = node((child.get("args", [])[1:2] or [None])[0])
                while of == "TypeCast":
                    of, value = node(value.get("arg"))
                if of not in ("A_Const", "ParamRef"):
                    return True
        return False

    def _within(self, kind: str, message: Message) -> Messages:
        """Return the message and everything within it."""
        nodes = [(kind, message)]
        for each in nodes:
            self._work.step()
            nodes += [(sort, child) for _, sort, child in children(*each)]
        return nodes

    def _doubts_after(self, kind: str, message: Message) -> CatalogueDoubts:
        if kind == "ExplainStmt":
            inner = node(message.get("query"))
            return self._doubts_after(*inner) if inner[0] else NO_DOUBTS
        names: set[str] = set()
        everything = False
        within = self._within(kind, message)
        is_code_free = not self._runs_code(kind, within)
        writes = self._writes_settings(within)
        settings = is_code_free and not writes
        path = not self._sets and not writes
        if kind == "VariableSetStmt":
            setting = message.get("name", "").lower()
            path = path and message.get("kind") != "VAR_RESET_ALL" and setting not in _PATH
        elif kind == "DiscardStmt":
            path = False
        elif kind == "SelectStmt" and "intoClause" in message:
            names.add(message["intoClause"]["rel"]["relname"])
        elif kind in _MAKES:
            relation = message
            for field in _MAKES[kind]:
                relation = relation[field]
            names.add(relation["relname"])
        elif kind == "RenameStmt" and "relation" in message:
            names |= {message["relation"]["relname"], message.get("newname", "")}
        elif kind == "CreateFunctionStmt":
            names.update(strings(message.get("funcname"))[-1:])
        else:
            everything = kind not in _HARMLESS
        return CatalogueDoubts(frozenset(names), everything, path, settings, is_code_free)
