"""Translation of PostgreSQL's queries to relational terms: SELECT, VALUES, WITH, FROM, RETURNING."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from postern.inspection.lineage import relations as rel
from postern.inspection.lineage.scope import WorkBudget
from postern.inspection.sql.postgres.postgres_tree import Message, node
from postern.protocols.postgres.lineage.postgres_builtins import COLUMNS, RECORDS
from postern.protocols.postgres.lineage.postgres_lineage_catalogue import CatalogueDoubts, PostgresLineageCatalogue
from postern.protocols.postgres.lineage.postgres_lineage_expressions import (
    PostgresExpressions,
    Windows,
    row_reference,
    strings,
)
from postern.protocols.postgres.lineage.postgres_lineage_names import output_name

_UNKNOWN_ROWS = rel.UnknownRows()


class PostgresQueries:
    """The PostgreSQL front end of relational terms."""

    def __init__(self, catalogue: PostgresLineageCatalogue, doubts: CatalogueDoubts, work: WorkBudget) -> None:
        self._work = work
        self.expressions = PostgresExpressions(catalogue, doubts, work, self.query)

    def query(self, value: Message | None) -> rel.Query:
        """Translate a `Node` with a query or a change."""
        kind, message = node(value)
        around, self.expressions.windows = self.expressions.windows, {}
        try:
            if kind == "SelectStmt":
                return self._select(message)
            return self._change(kind, message) if kind in _CHANGES else None
        finally:
            self.expressions.windows = around

    def targets(self, values: Iterable[Message]) -> list[rel.OutputColumn | rel.Star | rel.RowStar]:
        """Translate the list after SELECT or RETURNING."""
        return [self._target(value["ResTarget"]) for value in values]

    def _target(self, target: Message) -> rel.OutputColumn | rel.Star | rel.RowStar:
        value = target.get("val")
        kind, content = node(value)
        if kind == "ColumnRef" and "A_Star" in content["fields"][-1]:
            names = strings(content["fields"])
            return rel.Star(names[-2] if len(names) > 1 else "", names[-3] if len(names) > 2 else "")
        if kind == "A_Indirection" and "A_Star" in content["indirection"][-1]:
            row = row_reference(content.get("arg")) if len(content["indirection"]) == 1 else None
            return rel.RowStar(row, self.expressions.of(value))
        return rel.OutputColumn(output_name(target), self.expressions.of(value))

    def _with(self, message: Message) -> rel.With | None:
        clause = message.get("withClause")
        if not clause:
            return None
        tables = [self._common_table(cte["CommonTableExpr"]) for cte in clause.get("ctes", ())]
        return rel.With(tuple(tables), bool(clause.get("recursive")))

    def _common_table(self, table: Message) -> rel.CommonTable:
        added: list[tuple[str, bool]] = []
        search, cycle = table.get("search_clause"), table.get("cycle_clause")
        if search is not None:
            added.append((search.get("search_seq_column", ""), True))
        if cycle is not None:
            added += [(cycle.get("cycle_mark_column", ""), False), (cycle.get("cycle_path_column", ""), True)]
        names = strings(table.get("aliascolnames"))
        return rel.CommonTable(table.get("ctename", ""), self.query(table.get("ctequery")), names, tuple(added))

    def _select(self, select: Message) -> rel.Query:
        self._work.step()
        ctes = self._with(select)
        if "larg" in select:
            left, right = self._select(select["larg"]), self._select(select["rarg"])
            self.expressions.windows = {}
            return rel.SetOperation(left, right, self._conditions(select), ctes)
        if select.get("valuesLists"):
            rows = [
                tuple([self._target({"val": value}) for value in row["List"].get("items", ())])
                for row in select["valuesLists"]
            ]
            return rel.ValueRows(tuple(rows), "column", ctes)
        self.expressions.windows = {}
        sources = self._from(select.get("fromClause", ()))
        windows = [item["WindowDef"] for item in select.get("windowClause", ())]
        self.expressions.windows = {window.get("name", ""): window for window in windows}
        targets = self.targets(select.get("targetList", ()))
        return rel.Select(targets, sources, self._conditions(select), ctes)

    def _conditions(self, select: Message) -> rel.Conditions:
        windows = self.expressions.windows

        def conditions(is_needed: bool) -> Sequence[rel.Expression]:
            return self._filters(select, windows) if is_needed else ()

        return conditions

    def _filters(self, select: Message, windows: Windows) -> list[rel.Expression]:
        lists = [value for name in ("groupClause", "sortClause", "distinctClause") for value in select.get(name, ())]
        values = [select.get(name) for name in ("whereClause", "havingClause", "limitCount", "limitOffset")]
        around, self.expressions.windows = self.expressions.windows, windows
        try:
            return [self.expressions.of(_sorted_by(value)) for value in [*values, *lists] if value]
        finally:
            self.expressions.windows = around

    # FROM

    def _from(self, values: Iterable[Message]) -> tuple[rel.FromItem, ...]:
        return tuple([self._source(value) for value in values])

    def _source(self, value: Message | None) -> rel.FromItem:
        kind, message = node(value)
        self._work.step()
        if kind == "RangeVar":
            return _table(message)
        if kind == "JoinExpr":
            return self._join(message)
        if kind == "RangeSubselect":
            lateral = bool(message.get("lateral"))
            return rel.DerivedTable(self.query(message.get("subquery")), _alias(message), lateral)
        if kind == "RangeFunction":
            return self._functions(message)
        if kind == "RangeTableSample":
            return self._source(message.get("relation"))
        if kind == "RangeTableFunc":
            return self._xml_table(message)
        return self._json_table(message) if kind == "JsonTable" else _UNKNOWN_ROWS

    def _join(self, join: Message) -> rel.JoinedTables:
        quals = join.get("quals")
        return rel.JoinedTables(
            self._source(join.get("larg")),
            self._source(join.get("rarg")),
            strings(join.get("usingClause")),
            bool(join.get("isNatural")),
            on=None if quals is None else lambda: self.expressions.of(quals),
            alias=_alias(join),
            using_alias=join.get("join_using_alias", {}).get("aliasname", ""),
        )

    def _functions(self, element: Message) -> rel.FunctionRows:
        functions = [item["List"]["items"] for item in element.get("functions", [])]
        alias = _alias(element)
        rows: list[rel.RowsOf] = []
        name = ""
        for call, *definitions in functions:
            kind, content = node(call)
            name = strings(content.get("funcname"))[-1] if kind == "FuncCall" else ""
            value = self.expressions.of(call)
            listed = [item for definition in definitions for item in definition.get("List", {}).get("items", ())]
            if listed:
                rows.append(rel.RowsOf(value, _names_of_definitions(listed), certain=True))
            elif name in COLUMNS:
                rows.append(rel.RowsOf(value, COLUMNS[name]))
            else:
                rows.append(rel.RowsOf(value, None if not name or name in RECORDS else (name,)))
        if len(rows) != 1:
            name = ""
        elif alias is not None and rows[0].names == (name,):
            rows = [rel.RowsOf(rows[0].value, (alias.name,), rows[0].certain)]
        columns, ordinality = _names_of_definitions(element.get("coldeflist", ())), bool(element.get("ordinality"))
        return rel.FunctionRows(name, tuple(rows), columns, ordinality, alias)

    def _xml_table(self, element: Message) -> rel.FunctionRows:
        columns = [item["RangeTableFuncCol"] for item in element.get("columns", ())]
        inputs = [element.get("docexpr"), element.get("rowexpr"), *element.get("namespaces", ())]
        inputs += [value for column in columns for value in (column.get("colexpr"), column.get("coldefexpr"))]
        names = tuple([column.get("colname", "") for column in columns])
        rows = rel.RowsOf(self.expressions.all(inputs), names, certain=True)
        return rel.FunctionRows("xmltable", (rows,), alias=_alias(element))

    def _json_table(self, element: Message) -> rel.FunctionRows:
        columns = list(_json_columns(element.get("columns", ())))
        behaviors = [column[when] for column in columns for when in ("on_empty", "on_error") if when in column]
        of = self.expressions
        inputs = [
            of.inside("JsonValueExpr", element.get("context_item", {})),
            of.all(element.get("passing", ())),
            *(of.inside("JsonBehavior", behavior) for behavior in behaviors),
        ]
        rows = rel.RowsOf(rel.Made(tuple(inputs)), tuple([column.get("name", "") for column in columns]), certain=True)
        return rel.FunctionRows("json_table", (rows,), alias=_alias(element))

    # INSERT, UPDATE, DELETE and MERGE

    def _change(self, kind: str, message: Message) -> rel.ChangeStatement:
        self._work.step()
        ctes = self._with(message)
        more: dict[str, Any] = {}
        assigned: list[Message] = message.get("targetList", [])
        if kind == "InsertStmt":
            conflict = message.get("onConflictClause")
            assigned = conflict.get("targetList", []) if conflict else []
            more = {"columns": _columns(message.get("cols", ())), "upsert": conflict is not None}
            if "selectStmt" in message:
                more |= {"has_query": True, "query": self.query(message["selectStmt"])}
        elif kind == "MergeStmt":
            clauses = [item["MergeWhenClause"] for item in message.get("mergeWhenClauses", ())]
            inserts = [clause for clause in clauses if clause.get("values")]
            assigned = [
                target for clause in clauses if not clause.get("values") for target in clause.get("targetList", ())
            ]
            more = {
                "values": tuple([self._translate_insert_clause(clause) for clause in inserts]),
                "beside": self._from([message["sourceRelation"]]),
                "beside_sees": False,
                "table_last": True,
            }
        else:
            more = {"beside": self._from(message.get("fromClause" if kind == "UpdateStmt" else "usingClause", ()))}
        clause = message.get("returningClause", {})
        names = {"RETURNING_OPTION_OLD": "old", "RETURNING_OPTION_NEW": "new"}
        for item in clause.get("options", ()):
            option = item["ReturningOption"]
            names[option.get("option", "")] = option.get("value", "")
        return rel.ChangeStatement(
            _table(message["relation"]),
            assigned=tuple([self._assignment(target["ResTarget"]) for target in assigned]),
            returning=self.targets(clause.get("exprs", ())),
            before_after=tuple(names.values()),
            ctes=ctes,
            **more,
        )

    def _assignment(self, target: Message) -> tuple[str, rel.Expression]:
        return target.get("name", ""), self.expressions.of(target.get("val"))

    def _translate_insert_clause(self, clause: Message) -> tuple[tuple[str, ...], tuple[rel.Expression, ...]]:
        values = tuple([self.expressions.of(value) for value in clause["values"]])
        return _columns(clause.get("targetList", ())), values


_CHANGES = frozenset({"InsertStmt", "UpdateStmt", "DeleteStmt", "MergeStmt"})


def _alias(message: Message) -> rel.AliasList | None:
    alias = message.get("alias")
    return None if alias is None else rel.AliasList(alias.get("aliasname", ""), strings(alias.get("colnames")))


def _table(message: Message) -> rel.TableName:
    return rel.TableName(message.get("relname", ""), message.get("schemaname", ""), _alias(message))


def _sorted_by(value: Message) -> Message | None:
    kind, message = node(value)
    return message.get("node") if kind == "SortBy" else value


def _names_of_definitions(values: Iterable[Message]) -> tuple[str, ...]:
    return tuple([value["ColumnDef"].get("colname", "") for value in values])


def _columns(values: Iterable[Message]) -> tuple[str, ...]:
    return tuple([value["ResTarget"].get("name", "") for value in values])


def _json_columns(values: Iterable[Message]) -> Iterator[Message]:
    for value in values:
        column = value["JsonTableColumn"]
        if column.get("coltype") == "JTC_NESTED":
            yield from _json_columns(column.get("columns", ()))
        else:
            yield column
