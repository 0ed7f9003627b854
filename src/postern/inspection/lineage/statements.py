"""Whole statements: which rows each shows, which names it keeps for later, and what it does to what names mean."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from postern.inspection.lineage.catalogue import NO_DOUBTS, Catalogue, Doubts
from postern.inspection.lineage.changes import Changes
from postern.inspection.lineage.expressions import Work, inside, strings
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Ctes, Out, Scope


class Kept(Enum):
    CURSOR = "cursor"
    PREPARED = "prepared"


@dataclass(frozen=True, slots=True)
class Read:
    """One statement. `outs` are the columns of its answer, None where it has none.

    `shows` names what was kept by another statement, whose rows it shows; `keeps` what this one keeps: of that, `outs`
    are the columns. `doubts` are what is in doubt after it.
    """

    outs: tuple[Out, ...] | None = None
    shows: tuple[Kept, str] | None = None
    keeps: tuple[Kept, str] | None = None
    doubts: Doubts = NO_DOUBTS


# What leaves tables, views and functions as they are.
_HARMLESS_WORDS: Final = """
    AlterDefaultPrivilegesStmt AlterRoleSetStmt AlterRoleStmt AlterSeqStmt AlterSystemStmt CallStmt
    CheckPointStmt ClosePortalStmt ClusterStmt CommentStmt ConstraintsSetStmt CopyStmt CreateDomainStmt
    CreateEnumStmt CreateRoleStmt CreateStatsStmt CreateTrigStmt CreatedbStmt DeallocateStmt DeclareCursorStmt
    DeleteStmt DropRoleStmt DropdbStmt ExecuteStmt FetchStmt GrantRoleStmt GrantStmt IndexStmt InsertStmt
    ListenStmt LoadStmt LockStmt MergeStmt NotifyStmt PrepareStmt RefreshMatViewStmt ReindexStmt SecLabelStmt
    SelectStmt TransactionStmt TruncateStmt UnlistenStmt UpdateStmt VacuumStmt VariableShowStmt
"""
_HARMLESS: Final = frozenset(_HARMLESS_WORDS.split())

_PATH: Final = frozenset({"search_path", "role", "session_authorization"})


class Statements:
    """Reads one text. `sets` says that a query of it may set a setting."""

    def __init__(self, catalogue: Catalogue, doubts: Doubts, *, sets: bool = False) -> None:
        self._catalogue = catalogue
        self._doubts = doubts
        self._sets = sets
        self._work = Work()
        self._changes = Changes(catalogue, doubts, self._work)

    def read(self, statement: pb.Node) -> Read:
        kind = statement.WhichOneof("node")
        if kind is None:
            return Read()
        message = getattr(statement, kind)
        doubts = self._doubts_after(message)
        if isinstance(message, pb.DeclareCursorStmt):
            return Read(self._rows(message.query), keeps=(Kept.CURSOR, message.portalname), doubts=doubts)
        if isinstance(message, pb.PrepareStmt):
            return Read(self._rows(message.query), keeps=(Kept.PREPARED, message.name), doubts=doubts)
        if isinstance(message, pb.FetchStmt):
            return Read(shows=None if message.ismove else (Kept.CURSOR, message.portalname), doubts=doubts)
        if isinstance(message, pb.ExecuteStmt):
            return Read(shows=(Kept.PREPARED, message.name), doubts=doubts)
        return Read(self._rows(statement), doubts=doubts)

    def expression(self, column: pb.Node, outs: list[Out]) -> list[Out]:
        """What an expression over the columns of one table is made of."""
        return self._changes.queries.targets([column], Scope(outs=outs), Ctes())

    def _rows(self, statement: pb.Node) -> tuple[Out, ...] | None:
        kind = statement.WhichOneof("node")
        message = None if kind is None else getattr(statement, kind)
        if isinstance(message, pb.SelectStmt):
            return None if message.HasField("into_clause") else self._query(statement)
        if isinstance(message, (pb.InsertStmt, pb.UpdateStmt, pb.DeleteStmt, pb.MergeStmt)):
            return self._query(statement) if message.returning_clause.exprs else None
        if isinstance(message, pb.CopyStmt):
            return None if message.is_from else self._copied(message)
        if isinstance(message, pb.VariableShowStmt):
            return self._shown(message.name)
        if isinstance(message, pb.ExplainStmt):
            return self._explained(message)
        return (UNKNOWN,) if isinstance(message, pb.CallStmt) else None

    def _query(self, query: pb.Node) -> tuple[Out, ...]:
        return tuple(self._changes.queries.query(query, None, Ctes()))

    def _copied(self, copy: pb.CopyStmt) -> tuple[Out, ...]:
        if copy.HasField("query"):
            return self._query(copy.query)
        relation = self._catalogue.relation(copy.relation.schemaname, copy.relation.relname, self._doubts)
        if relation is None:
            return (UNKNOWN,)
        outs = {out.name: out for out in self._catalogue.outs(relation)}
        names = strings(copy.attlist) or [name for name in relation.columns if name and name not in relation.generated]
        return tuple(outs.get(name, Out(name, None)) for name in names)

    def _shown(self, name: str) -> tuple[Out, ...]:
        if name.lower() == "all":
            return (Out("name", NOTHING), Out("setting", None), Out("description", NOTHING))
        return (Out(name, self._changes.queries.expressions.setting(name)),)

    def _explained(self, explain: pb.ExplainStmt) -> tuple[Out, ...]:
        """A plan quotes constants, and what functions answered that were called while it was made."""
        trusted = not explain.query.HasField("execute_stmt") and not self._runs_code(explain.query)
        for found in self._within(explain.query):
            if isinstance(found, pb.RangeVar) and self._catalogue.tells(found.relname, found.schemaname, self._doubts):
                trusted = trusted and found.relname in self._ctes(explain.query)
        return (Out("QUERY PLAN", NOTHING if trusted else None),)

    def _ctes(self, message: Message) -> set[str]:
        return {found.ctename for found in self._within(message) if isinstance(found, pb.CommonTableExpr)}

    def _runs_code(self, message: Message) -> bool:
        """Whether it runs code that nobody here can read."""
        return isinstance(message, (pb.DoStmt, pb.CallStmt)) or any(
            isinstance(found, pb.FuncCall) and not self._catalogue.pure(strings(found.funcname), self._doubts)
            for found in self._within(message)
        )

    def _writes_settings(self, message: Message) -> bool:
        """Whether a query may put into a setting what it has read."""
        for found in self._within(message):
            if isinstance(found, pb.UpdateStmt) and found.relation.relname == "pg_settings":
                return True
            if isinstance(found, pb.FuncCall) and strings(found.funcname)[-1:] == ("set_config",):
                value = found.args[1] if len(found.args) > 1 else pb.Node()
                while value.HasField("type_cast"):
                    value = value.type_cast.arg
                if not value.HasField("a_const") and not value.HasField("param_ref"):
                    return True
        return False

    def _within(self, message: Message) -> Iterator[Message]:
        left = [message]
        while left:
            self._work.step()
            found = left.pop()
            yield found
            left += inside(found)

    def _doubts_after(self, message: Message) -> Doubts:
        names: set[str] = set()
        everything = False
        kept = not self._runs_code(message)
        writes = self._writes_settings(message)
        settings = kept and not writes
        path = not self._sets and not writes
        if isinstance(message, pb.ExplainStmt):
            kind = message.query.WhichOneof("node")
            return NO_DOUBTS if kind is None else self._doubts_after(getattr(message.query, kind))
        if isinstance(message, pb.VariableSetStmt):
            path = path and message.kind != pb.VAR_RESET_ALL and message.name.lower() not in _PATH
        elif isinstance(message, pb.DiscardStmt):
            path = False
        elif isinstance(message, pb.SelectStmt) and message.HasField("into_clause"):
            names.add(message.into_clause.rel.relname)
        elif isinstance(message, pb.CreateTableAsStmt):
            names.add(message.into.rel.relname)
        elif isinstance(message, pb.CreateForeignTableStmt):
            names.add(message.base_stmt.relation.relname)
        elif isinstance(message, pb.ViewStmt):
            names.add(message.view.relname)
        elif isinstance(message, (pb.CreateStmt, pb.CreateSeqStmt)):
            names.add((message.relation if isinstance(message, pb.CreateStmt) else message.sequence).relname)
        elif isinstance(message, pb.AlterTableStmt):
            names.add(message.relation.relname)
        elif isinstance(message, pb.RenameStmt) and message.HasField("relation"):
            names |= {message.relation.relname, message.newname}
        elif isinstance(message, pb.CreateFunctionStmt):
            names.update(strings(message.funcname)[-1:])
        else:
            everything = message.DESCRIPTOR.name not in _HARMLESS
        return Doubts(frozenset(names), everything, path, settings, kept)
