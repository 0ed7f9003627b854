"""INSERT, UPDATE, DELETE and MERGE: what they return, which holds what they have just written as well."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from postern.inspection.lineage.scope import (
    COMPUTED,
    NOTHING,
    UNKNOWN,
    Ctes,
    FromPart,
    Item,
    Out,
    Scope,
    Sources,
    WorkBudget,
    merged,
    union,
)
from postern.inspection.sql.postgres.postgres_tree import Message
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import Doubts, PostgresLineageCatalogue
from postern.protocols.postgres.lineage.postgres_lineage_queries import PostgresQueries

Written = dict[str, Sources]
"""What is written into each column, by its name."""


class Changes:
    """Also the door to queries: a change may hold one, and be held by one."""

    def __init__(self, catalogue: PostgresLineageCatalogue, doubts: Doubts, work: WorkBudget) -> None:
        self.queries = PostgresQueries(catalogue, doubts, work, self._change)
        self._expressions = self.queries.expressions
        self._origins = self.queries.origins

    def _change(self, kind: str, message: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        ctes = self.queries.within(message.get("withClause"), parent, ctes)
        if kind == "InsertStmt":
            return self._insert(message, parent, ctes)
        if kind == "UpdateStmt":
            return self._update(message, message.get("fromClause", ()), parent, ctes)
        if kind == "DeleteStmt":
            return self._update(message, message.get("usingClause", ()), parent, ctes)
        if kind == "MergeStmt":
            return self._merge(message, parent, ctes)
        return [UNKNOWN]

    def _insert(self, insert: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        table = insert["relation"]
        target = self._origins.table(table)
        names = _assigned(insert.get("cols", ())) or [out.name for out in target.outs]
        given = self.queries.query(insert["selectStmt"], parent, ctes) if "selectStmt" in insert else []
        if any(out.many for out in given):
            given = [Out(None, merged(given))] * len(names)
        written: Written = {}
        for name, out in zip(names, given, strict=False):
            if name is not None:
                _write(written, name, out.sources)
        if "onConflictClause" in insert:
            scope = Scope(parent)
            scope.add(target)
            scope.items.append(Item("excluded", self._after(table, target, written).outs))
            self._assign(written, insert["onConflictClause"].get("targetList", ()), scope, ctes)
        return self._returning(insert, self._after(table, target, written), [], parent, ctes)

    def _update(self, change: Message, others: Sequence[Message], parent: Scope | None, ctes: Ctes) -> list[Out]:
        """Of a DELETE as well, which has no list of columns."""
        target = self._origins.table(change["relation"])
        beside = self._beside(others, target, parent, ctes)
        written: Written = {}
        self._assign(written, change.get("targetList", ()), Scope(parent).with_parts([target, *beside]), ctes)
        return self._returning(change, self._after(change["relation"], target, written), beside, parent, ctes)

    def _merge(self, merge: Message, parent: Scope | None, ctes: Ctes) -> list[Out]:
        target = self._origins.table(merge["relation"])
        beside = self._beside([merge["sourceRelation"]], None, parent, ctes)
        scope = Scope(parent).with_parts([*beside, target])
        written: Written = {}
        for one in merge.get("mergeWhenClauses", ()):
            clause = one["MergeWhenClause"]
            targets = clause.get("targetList", ())
            if clause.get("values"):
                names = _assigned(targets) or [out.name for out in target.outs]
                for name, value in zip(names, clause["values"], strict=False):
                    if name is not None:
                        _write(written, name, self._expressions.of(value, scope, ctes))
            else:
                self._assign(written, targets, scope, ctes)
        target = self._after(merge["relation"], target, written)
        return self._returning(merge, target, beside, parent, ctes, target_last=True)

    def _beside(
        self, values: Sequence[Message], target: FromPart | None, parent: Scope | None, ctes: Ctes
    ) -> list[FromPart]:
        """What stands beside the target. It may speak of the target where it is lateral."""
        if not values:
            return []
        scope = Scope(parent)
        before = scope if target is None else scope.with_parts([target])
        found = self._origins.scope(values, before, ctes)
        skipped = 0 if target is None else len(target.items)
        columns = 0 if target is None else len(target.outs)
        return [FromPart(tuple(found.items[skipped:]), tuple(found.outs[columns:]))]

    def _assign(self, written: Written, values: Iterable[Message], scope: Scope, ctes: Ctes) -> None:
        for one in values:
            target = one["ResTarget"]
            _write(written, target.get("name", ""), self._expressions.of(target.get("val"), scope, ctes))

    def _returning(
        self,
        change: Message,
        target: FromPart,
        beside: list[FromPart],
        parent: Scope | None,
        ctes: Ctes,
        *,
        target_last: bool = False,
    ) -> list[Out]:
        clause = change.get("returningClause", {})
        scope = Scope(parent).with_parts([*beside, target] if target_last else [target, *beside])
        names = {"RETURNING_OPTION_OLD": "old", "RETURNING_OPTION_NEW": "new"}
        for one in clause.get("options", ()):
            option = one["ReturningOption"]
            names[option.get("option", "")] = option.get("value", "")
        for name in names.values():
            if scope.item(name) is None:
                scope.items.append(Item(name, target.outs))
        return self.queries.targets(clause.get("exprs", ()), scope, ctes)

    def _after(self, table: Message, target: FromPart, written: Written) -> FromPart:
        """The target with what is written into it. Whatever is written may show in any column that is computed."""
        relation = self._origins.relation(table)
        computed = set(_names(target)) if relation is None or relation.definition else set(relation.generated)
        anything = union(written.values())
        outs = []
        for out in target.outs:
            may_be_any = out.name is None or out.name in computed
            fresh = anything if may_be_any else written.get(out.name or "", NOTHING)
            # What a client has just written is its own choice, as a constant is.
            is_fresh = bool(written) if may_be_any else out.name in written
            plain = COMPUTED if is_fresh else out.plain
            outs.append(Out(out.name, union([out.sources, fresh]), out.many, plain=plain))
        items = tuple(Item(item.name, tuple(outs), item.schema, item.system) for item in target.items)
        return FromPart(items, tuple(outs))


def _names(target: FromPart) -> list[str]:
    return [out.name for out in target.outs if out.name is not None]


def _assigned(values: Iterable[Message]) -> list[str | None]:
    return [one["ResTarget"].get("name", "") for one in values]


def _write(written: Written, name: str, sources: Sources) -> None:
    written[name] = union([written.get(name, NOTHING), sources])
