"""The origin of a session's result columns: from the statement, the session's earlier statements, and the column
description that the target sends.

The description only adds sources. MariaDB (10.11) sends the alias of a view, or of a subquery in FROM, instead of a
table, so it may name a table that has nothing to do with the result. A table or column that is not in the snapshot
makes the origin unknown, if the snapshot has another one of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from postern.domain.targets.target_schema import Origin, TargetSchema
from postern.inspection.lineage.answers import Outs, one_of, origin_of, origins_of_all, spread
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Out, Sources, merge_sources, union
from postern.inspection.lineage.session_lineage import SnapshotLineage
from postern.inspection.lineage.unread import UnreadText
from postern.interception.events import Column
from postern.protocols.mysql.dialect.mysql_texts import Texts, VariableText, limit_texts
from postern.protocols.mysql.lineage.mysql_lineage import MySqlLineage
from postern.protocols.mysql.lineage.mysql_lineage_catalogue import SessionState
from postern.protocols.mysql.lineage.mysql_names import column_name
from postern.protocols.mysql.lineage.mysql_statements import MysqlRead

_NAMES: Final = 256  # names of each kind; further ones are unknown
_MEANINGS: Final = 32  # texts per name
_DATABASES: Final = 8  # beyond this, a name without a database may be in any

_Reads = tuple[MysqlRead, ...] | None


class MySqlSessionLineage(SnapshotLineage[SessionState, _Reads]):
    """Lineage of one session. Call `record_statement` for each statement in order, then `of` for its response.

    Facts only ever add meanings to a name, so failed statements, and statements that were sent before an earlier one
    was answered, cannot mislead it. Never raises.
    """

    def __init__(self, lineage: MySqlLineage, schema: Callable[[], TargetSchema | None]) -> None:
        super().__init__(schema)
        self._lineage = lineage
        self._state = SessionState()
        self._used: tuple[str, ...] | None = ()  # databases besides the login's
        self._handlers: dict[str, list[Outs]] = {}
        self._prepared: dict[str, Texts] = {}
        self._texts: dict[str, Texts] = {}  # of variables

    def record_gap(self) -> None:
        """Record that statements were forwarded unseen: they may have changed anything."""
        self._state = replace(self._state, everything=True, lost=True, settings=False)
        self._used = None

    def record_statement(self, statement: str) -> None:
        """Record a statement before it is forwarded."""
        reads = self._read(statement)
        if reads is None:
            self.record_gap()  # the target may understand what cannot be parsed here
            return
        for read in reads:
            self._learn(read)
            for text in self._run(read) if read.runs else ():
                for inner in text or ():
                    self._learn(inner)
                if text is None:
                    self.record_gap()

    def unread(self, statement: str) -> UnreadText | None:
        """Return what `record_statement` would read for this statement, or for what it executes; None if known."""
        schema, state = self._schema, self._now(self._schema)
        if not self._is_last(statement, schema, state):
            unread = self._lineage.unread(statement, schema, state)
            if unread is not None:
                return unread
        for read in self._read(statement) or ():
            for text in self._find_executed_texts(read) or ():
                unread = self._lineage.unread(text, schema, state, read.bind_sources)
                if unread is not None:
                    return unread
        return None

    def of(self, statement: str, columns: Sequence[Column]) -> tuple[Origin | None, ...] | None:
        """Return the origin of each column of a response. None if nothing is known about any of them."""
        outs = self._trace_columns(statement, columns)
        if not columns:
            return origins_of_all(outs)
        found_outs = None if outs is None else spread(outs, len(columns))
        if found_outs is None:
            return (None,) * len(columns)
        return tuple(origin_of(self._both(column, out)) for column, out in zip(columns, found_outs, strict=True))

    def _now(self, schema: TargetSchema) -> SessionState:
        """Return the state with the possible databases of a name: the login's, and each that was used since."""
        path = schema.search_path
        if self._used is None or not (path or self._used):
            return self._state
        return replace(self._state, databases=tuple(dict.fromkeys((*path[:1], *self._used))))

    def _read(self, statement: str) -> _Reads:
        schema = self._schema
        return self._read_once(statement, schema, self._now(schema), self._lineage.read)

    def _run(self, read: MysqlRead) -> Iterator[_Reads]:
        """Return the analysis of each text that EXECUTE may run; None for an unknown text, or one that runs another."""
        schema, texts = self._schema, self._find_executed_texts(read)
        if texts is None:
            yield None
            return
        for text in texts:
            reads = self._lineage.read(text, schema, self._now(schema), read.bind_sources)
            yield None if reads is None or any(inner.runs or inner.prepares for inner in reads) else reads

    def _find_executed_texts(self, read: MysqlRead) -> tuple[str, ...] | None:
        """Return the texts that EXECUTE may run; None if unknown. Empty for other statements."""
        if not read.runs:
            return ()
        texts = read.executes
        if isinstance(texts, str):
            texts = self._prepared.get(texts)
        if isinstance(texts, VariableText):
            texts = self._resolve_variable(texts)
        return None if self._state.lost or not isinstance(texts, tuple) else texts

    def _resolve_variable(self, variable: VariableText) -> Texts:
        return None if self._state.lost else self._texts.get(variable.name)

    def _learn(self, read: MysqlRead) -> None:
        state = self._state
        if read.opens is not None:
            name, outs = read.opens
            meanings = self._handlers.setdefault(name, [])
            if outs not in meanings:
                meanings.append(outs if len(meanings) < _MEANINGS and len(self._handlers) <= _NAMES else (UNKNOWN,))
        if read.prepares is not None:
            name, texts = read.prepares
            self._add(self._prepared, name, self._resolve_variable(texts) if isinstance(texts, VariableText) else texts)
        for name, texts in read.texts:
            self._add(self._texts, name, self._resolve_variable(texts) if isinstance(texts, VariableText) else texts)
        if read.uses and self._used is not None and read.uses not in self._used:
            self._used = None if len(self._used) >= _DATABASES else (*self._used, read.uses)
        names, variables = state.names | read.names, state.variables
        if read.puts:
            sources_by_name = dict(variables)
            for name, sources in read.puts:
                sources_by_name[name] = union([sources_by_name.get(name, NOTHING), sources])
            variables = frozenset(sources_by_name.items())
        lost = state.lost or read.lost or len(variables) > _NAMES
        everything = state.everything or read.everything or len(names) > _NAMES
        settings = state.settings and read.settings
        changed = SessionState(frozenset() if everything else names, everything, None, variables, lost, settings)
        if changed != state:
            self._state = changed

    def _add(self, stored_texts: dict[str, Texts], name: str, texts: Texts) -> None:
        """Add one more meaning. A name that may mean anything stays so."""
        before = stored_texts.get(name, ())
        if not isinstance(before, tuple) or not isinstance(texts, tuple) or len(stored_texts) > _NAMES:
            stored_texts[name] = None
        else:
            stored_texts[name] = limit_texts((*before, *texts))

    def _trace_columns(self, statement: str, columns: Sequence[Column]) -> Outs | None:
        reads = self._read(statement)
        if reads is None:
            return None
        meanings: list[Outs | None] = []
        for read in reads:
            meanings += self._meanings(read)
        return one_of(meanings, columns, _fold_ascii_name)

    def _meanings(self, read: MysqlRead) -> list[Outs | None]:
        if read.handler:
            return [None] if self._state.lost else list(self._handlers.get(read.handler, [(UNKNOWN,)]))
        if not read.runs:
            return [] if read.outs is None else [read.outs]
        meanings: list[Outs | None] = []
        for reads in self._run(read):
            if reads is None:
                return [None]
            for inner in reads:
                meanings += [] if inner.outs is None and not inner.handler else self._meanings(inner)
        return meanings

    def _both(self, column: Column, out: Out) -> Out:
        """Add the target's description to the statement's lineage."""
        if column.origin is None or out.sources is None:
            return out
        schema, table, name = column.origin
        catalogue = self._lineage.catalogue(self._schema)
        sources: list[Sources] = [out.sources]
        keys = catalogue.find_relation_keys(schema, table) if table else []
        if table and not keys and catalogue.find_relation_keys("", table):
            return Out(None, None)  # a table of that name that the snapshot does not have
        for key in keys:
            outs = [out for out in catalogue.outs(catalogue.schema.relations[key]) if out.name == column_name(name)]
            sources.append(merge_sources(outs) if outs or not schema else None)
        return Out(None, union(sources), plain=out.plain)


def _fold_ascii_name(name: str) -> str:
    """Compare letters beyond ASCII in the session's character set."""
    return name.lower() if name.isascii() else ""
