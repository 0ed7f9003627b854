"""INSERT, UPDATE, DELETE and MERGE: what they return, which holds what they have just written as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import Message
from postgast import pg_query_pb2 as pb

from postern.inspection.lineage.catalogue import Catalogue, Doubts
from postern.inspection.lineage.expressions import Work
from postern.inspection.lineage.queries import Queries
from postern.inspection.lineage.scope import NOTHING, UNKNOWN, Ctes, Item, Out, Part, Scope, Sources, merged, union

Written = dict[str, Sources]
"""What is written into each column, by its name."""


class Changes:
    """Also the door to queries: a change may hold one, and be held by one."""

    def __init__(self, catalogue: Catalogue, doubts: Doubts, work: Work) -> None:
        self.queries = Queries(catalogue, doubts, work, self._change)
        self._expressions = self.queries.expressions
        self._origins = self.queries.origins

    def _change(self, message: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        if isinstance(message, pb.InsertStmt):
            return self._insert(message, parent, self.queries.within(message.with_clause, parent, ctes))
        if isinstance(message, pb.UpdateStmt):
            ctes = self.queries.within(message.with_clause, parent, ctes)
            return self._update(message, message.from_clause, parent, ctes)
        if isinstance(message, pb.DeleteStmt):
            ctes = self.queries.within(message.with_clause, parent, ctes)
            return self._update(message, message.using_clause, parent, ctes)
        if isinstance(message, pb.MergeStmt):
            return self._merge(message, parent, self.queries.within(message.with_clause, parent, ctes))
        return [UNKNOWN]

    def _insert(self, insert: pb.InsertStmt, parent: Scope | None, ctes: Ctes) -> list[Out]:
        target = self._origins.table(insert.relation)
        names = [node.res_target.name for node in insert.cols] or [out.name for out in target.outs]
        given = self.queries.query(insert.select_stmt, parent, ctes) if insert.HasField("select_stmt") else []
        if any(out.many for out in given):
            given = [Out(None, merged(given))] * len(names)
        written: Written = {}
        for name, out in zip(names, given, strict=False):
            if name is not None:
                _write(written, name, out.sources)
        if insert.HasField("on_conflict_clause"):
            scope = Scope(parent)
            scope.add(target)
            scope.items.append(Item("excluded", self._after(insert.relation, target, written).outs))
            self._assign(written, insert.on_conflict_clause.target_list, scope, ctes)
        return self._returning(insert.returning_clause, self._after(insert.relation, target, written), [], parent, ctes)

    def _update(
        self,
        change: pb.UpdateStmt | pb.DeleteStmt,
        others: Sequence[pb.Node],
        parent: Scope | None,
        ctes: Ctes,
    ) -> list[Out]:
        target = self._origins.table(change.relation)
        beside = self._beside(others, target, parent, ctes)
        written: Written = {}
        if isinstance(change, pb.UpdateStmt):
            self._assign(written, change.target_list, Scope(parent).with_parts([target, *beside]), ctes)
        return self._returning(
            change.returning_clause, self._after(change.relation, target, written), beside, parent, ctes
        )

    def _merge(self, merge: pb.MergeStmt, parent: Scope | None, ctes: Ctes) -> list[Out]:
        target = self._origins.table(merge.relation)
        beside = self._beside([merge.source_relation], None, parent, ctes)
        scope = Scope(parent).with_parts([*beside, target])
        written: Written = {}
        for node in merge.merge_when_clauses:
            clause = node.merge_when_clause
            if clause.values:
                names = [target.res_target.name for target in clause.target_list] or [out.name for out in target.outs]
                for name, value in zip(names, clause.values, strict=False):
                    if name is not None:
                        _write(written, name, self._expressions.of(value, scope, ctes))
            else:
                self._assign(written, clause.target_list, scope, ctes)
        target = self._after(merge.relation, target, written)
        return self._returning(merge.returning_clause, target, beside, parent, ctes, target_last=True)

    def _beside(self, nodes: Sequence[pb.Node], target: Part | None, parent: Scope | None, ctes: Ctes) -> list[Part]:
        """What stands beside the target. It may speak of the target where it is lateral."""
        if not nodes:
            return []
        scope = Scope(parent)
        before = scope if target is None else scope.with_parts([target])
        found = self._origins.scope(nodes, before, ctes)
        skipped = 0 if target is None else len(target.items)
        columns = 0 if target is None else len(target.outs)
        return [Part(tuple(found.items[skipped:]), tuple(found.outs[columns:]))]

    def _assign(self, written: Written, nodes: Iterable[pb.Node], scope: Scope, ctes: Ctes) -> None:
        for node in nodes:
            _write(written, node.res_target.name, self._expressions.of(node.res_target.val, scope, ctes))

    def _returning(
        self,
        clause: pb.ReturningClause,
        target: Part,
        beside: list[Part],
        parent: Scope | None,
        ctes: Ctes,
        *,
        target_last: bool = False,
    ) -> list[Out]:
        scope = Scope(parent).with_parts([*beside, target] if target_last else [target, *beside])
        names = {pb.RETURNING_OPTION_OLD: "old", pb.RETURNING_OPTION_NEW: "new"}
        for node in clause.options:
            names[node.returning_option.option] = node.returning_option.value
        for name in names.values():
            if scope.item(name) is None:
                scope.items.append(Item(name, target.outs))
        return self.queries.targets(clause.exprs, scope, ctes)

    def _after(self, table: pb.RangeVar, target: Part, written: Written) -> Part:
        """The target with what is written into it. Whatever is written may show in any column that is computed."""
        relation = self._origins.relation(table)
        computed = set(_names(target)) if relation is None or relation.definition else set(relation.generated)
        anything = union(written.values())
        outs = []
        for out in target.outs:
            fresh = anything if out.name is None or out.name in computed else written.get(out.name, NOTHING)
            outs.append(Out(out.name, union([out.sources, fresh]), out.many))
        items = tuple(Item(item.name, tuple(outs), item.schema, item.system) for item in target.items)
        return Part(items, tuple(outs))


def _names(target: Part) -> list[str]:
    return [out.name for out in target.outs if out.name is not None]


def _write(written: Written, name: str, sources: Sources) -> None:
    written[name] = union([written.get(name, NOTHING), sources])
