"""The query that counts the rows which an UPDATE, a DELETE or a MERGE would affect (decision 0046).

For an UPDATE and a DELETE it counts the rows of the table that meet the condition; with a FROM or a USING, those that
have a partner there, each once. For a MERGE it counts the rows that it would update, delete and insert. The SET and
RETURNING clauses are left out, so that they do not run.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from postgast import PgQueryError, deparse, pg_query_pb2

from postern.domain.rules.row_count import MOST_CHARACTERS, MOST_ROWS, CountPlans, Named, Uncountable
from postern.inspection.sql.postgres.postgres_tree import Message, UnreadablePostgres, children, names, node, readings
from postern.protocols.postgres.dialect.postgres_side_effect_free import check_text, is_calm, qualified_name_of, uses
from postern.protocols.postgres.queries.postgres_row_counting import PostgresCountPlan

MOST_PARTS: Final = 20
_ACTIONS: Final = {"UpdateStmt": "UPDATE", "DeleteStmt": "DELETE", "MergeStmt": "MERGE"}
_CHANGES: Final = frozenset({*_ACTIONS, "InsertStmt"})
_PLACES: Final = frozenset({"location", "rexpr_list_start", "rexpr_list_end", "list_start", "list_end"})
_TRUE: Final[Message] = {"A_Const": {"boolval": {"boolval": True}}}
_FALSE: Final[Message] = {"A_Const": {"boolval": {}}}
_EVERYTHING: Final = "the whole statement"


class PostgresCounter:
    """Makes count plans: `plans(text)` returns how to count the parts of a text that change rows. Takes milliseconds,
    in any thread."""

    def plans(self, text: str) -> CountPlans[PostgresCountPlan]:
        if len(text) > MOST_CHARACTERS:
            return _unknown(f"it is longer than {MOST_CHARACTERS:,} characters")
        try:
            ways = readings(text)
            parts = [list(_parts(statement)) for statement in ways[0]]
            stirs = [_stirs(statement) for statement in ways[0]]
            more = any(_does_more(statement) for statement in ways[0])
        except UnreadablePostgres as error:
            return _unknown(str(error))
        except RecursionError:
            return _unknown("it is nested too deeply")
        if not any(parts):
            return CountPlans((), any(stirs), more)
        if len(ways) > 1 and _placeless(ways[0]) != _placeless(ways[1]):
            return _unknown("it contains a backslash, whose meaning depends on standard_conforming_strings")
        if sum(len(each) for each in parts) > MOST_PARTS:
            return _unknown(f"it has more than {MOST_PARTS} parts that change rows")
        plans = [
            behind(_plan(*part)) if any(stirs[:place]) else _plan(*part)
            for place, each in enumerate(parts)
            for part in each
        ]
        return CountPlans(tuple(plans), any(stirs), more)


def behind(plan: PostgresCountPlan) -> PostgresCountPlan:
    """Return the plan for a statement after one that may change its meaning."""
    return _make_uncountable_plan("earlier statements can change its meaning", plan.action, plan.target)


def _unknown(why: str) -> CountPlans[PostgresCountPlan]:
    return CountPlans((_make_uncountable_plan(why),), True, True)


def _stirs(statement: Message) -> bool:
    """Return True if the statement may change settings, names or the current user. Its effect on rows does not
    matter."""
    kind, message = node(statement)
    if kind == "TransactionStmt":
        return message.get("kind") not in ("TRANS_STMT_BEGIN", "TRANS_STMT_START")
    if kind not in _CHANGES and kind not in ("SelectStmt", "VariableShowStmt"):
        return True
    return any(
        (child_kind == "FuncCall" and not is_calm(names(child.get("funcname"))))
        or (child_kind == "SelectStmt" and bool(child.get("intoClause")))
        for child_kind, child in _all(kind, message)
    )


def _does_more(statement: Message) -> bool:
    kind, message = node(statement)
    if kind in ("TransactionStmt", "VariableShowStmt", "VariableSetStmt"):
        return False
    if kind not in _ACTIONS and kind != "SelectStmt":
        return True
    return any(child_kind == "InsertStmt" for child_kind, _ in _all(kind, message)) or (
        kind == "SelectStmt" and _stirs(statement)
    )


def _all(kind: str, message: Message) -> Iterator[tuple[str, Message]]:
    waiting = [(kind, message)]
    while waiting:
        kind, message = waiting.pop()
        yield kind, message
        waiting += [(child_kind, child) for _, child_kind, child in children(kind, message)]


def _make_uncountable_plan(why: str, action: str = "", target: Named = ("", "")) -> PostgresCountPlan:
    return PostgresCountPlan(action or _EVERYTHING, target, why)


Part = tuple[str, Message, Sequence[Message]]
"""The kind, the message, and the queries of a surrounding WITH that it can name."""


def _parts(statement: Message) -> Iterator[Part]:
    """Return all parts that change rows, at any depth: alone, in a WITH, or within an EXPLAIN, a COPY and the like."""
    waiting: list[Part] = [(*node(statement), ())]
    while waiting:
        kind, message, outside = waiting.pop(0)
        if kind in _ACTIONS:
            yield kind, message, outside
        clause = message.get("withClause") if kind in _CHANGES or kind == "SelectStmt" else None
        ctes = [element["CommonTableExpr"] for element in (clause or {}).get("ctes", ())]
        for number, cte in enumerate(ctes):
            seen = ctes if clause and clause.get("recursive") else ctes[:number]
            waiting.append((*node(cte["ctequery"]), [*outside, *(other for other in seen if other is not cte)]))
        for field, child_kind, child in children(kind, message):
            if field != "withClause":
                waiting.append((child_kind, child, outside))


def _plan(kind: str, message: Message, outside: Sequence[Message]) -> PostgresCountPlan:
    action, target = _ACTIONS[kind], qualified_name_of(message["relation"])
    try:
        return _plan_count(kind, copy.deepcopy(message), copy.deepcopy(list(outside)), action, target)
    except Uncountable as error:
        return _make_uncountable_plan(error.message, action, target)
    except RecursionError:
        return _make_uncountable_plan("it is nested too deeply", action, target)


def _plan_count(kind: str, message: Message, outside: list[Message], action: str, target: Named) -> PostgresCountPlan:
    message = _with_outside(message, outside)
    rows = _select_merged_rows(message) if kind == "MergeStmt" else _select_changed_rows(kind, message)
    relation = message["relation"]
    usage = uses(rows, relation)
    numbers: dict[int, int] = {}
    for parameter in usage.parameters:
        number = parameter.get("number", 0)
        parameter["number"] = numbers.setdefault(number, len(numbers) + 1)
    _without_changes(rows)
    sets = frozenset(_set_columns(kind, message))
    return PostgresCountPlan(
        action,
        target,
        tables=tuple(dict.fromkeys(qualified_name_of(table) for table in usage.tables)),
        others=tuple(
            {qualified_name_of(table) for table in usage.tables if table is not relation or kind == "MergeStmt"}
        ),
        columns=None if usage.is_whole else frozenset(usage.columns),
        fields=frozenset(usage.fields),
        functions=frozenset(usage.functions),
        operators=frozenset(usage.operators),
        types=frozenset(usage.types),
        collations=frozenset(usage.collations),
        writes=usage.writes,
        sets=sets,
        values=tuple(numbers),
        check=check_text,
        query=partial(_text, rows, [(table, qualified_name_of(table)) for table in usage.tables]),
    )


def _with_outside(message: Message, outside: Sequence[Message]) -> Message:
    """Add the outer queries to the message's own WITH."""
    if not outside:
        return message
    with_clause = message.get("withClause", {})
    ctes = [*({"CommonTableExpr": cte} for cte in outside), *with_clause.get("ctes", ())]
    called = [cte["CommonTableExpr"]["ctename"] for cte in ctes]
    if len(set(called)) < len(called):
        raise Uncountable("two of its WITH queries have the same name")
    return {**message, "withClause": {**with_clause, "ctes": ctes}}


def _without_changes(rows: Message) -> None:
    """Remove WITH queries that change rows; the counted query does not reference them."""
    clause = rows.get("withClause")
    if clause is not None:
        queries = [cte for cte in clause["ctes"] if "SelectStmt" in cte["CommonTableExpr"]["ctequery"]]
        rows["withClause"] = {**clause, "ctes": queries}
        if not queries:
            del rows["withClause"]


def _set_columns(kind: str, message: Message) -> Iterator[str]:
    lists = [message.get("targetList", [])]
    if kind == "MergeStmt":
        clauses = [element["MergeWhenClause"] for element in message.get("mergeWhenClauses", ())]
        lists = [clause.get("targetList", []) for clause in clauses if clause.get("commandType") == "CMD_UPDATE"]
    if kind != "DeleteStmt":
        yield from (target["ResTarget"].get("name", "") for targets in lists for target in targets)


def _select(fields: Message) -> Message:
    return {"limitOption": "LIMIT_OPTION_DEFAULT", "op": "SETOP_NONE", **fields}


def _value(value: Message) -> Message:
    return {"ResTarget": {"val": value}}


def _column(relation: Message, name: str) -> Message:
    called = relation.get("alias", {}).get("aliasname") or relation["relname"]
    return {"ColumnRef": {"fields": [{"String": {"sval": called}}, {"String": {"sval": name}}]}}


def _select_changed_rows(kind: str, message: Message) -> Message:
    """Return the rows of an UPDATE or a DELETE."""
    relation = message["relation"]
    where = message.get("whereClause")
    if where is not None and "CurrentOfExpr" in where:
        raise Uncountable("it changes the row at a cursor (WHERE CURRENT OF)")
    others = message.get("fromClause" if kind == "UpdateStmt" else "usingClause", [])
    fields: Message = {"targetList": [_value(_TRUE)], "fromClause": [{"RangeVar": relation}, *others]}
    if others:  # a row counts once, however many partners it has
        fields["targetList"] = [_value(_column(relation, name)) for name in ("tableoid", "ctid")]
        fields["distinctClause"] = [{}]
    if where is not None:
        fields["whereClause"] = where
    if "withClause" in message:
        fields["withClause"] = message["withClause"]
    return _select(fields)


def _select_merged_rows(message: Message) -> Message:
    relation, source, condition = message["relation"], message["sourceRelation"], message["joinCondition"]
    clauses = [clause["MergeWhenClause"] for clause in message.get("mergeWhenClauses", ())]
    matches = {"IS_NOT_NULL": "MERGE_WHEN_MATCHED", "IS_NULL": "MERGE_WHEN_NOT_MATCHED_BY_TARGET"}
    cases = [
        {
            "CaseWhen": {
                "expr": {"NullTest": {"arg": _column(relation, "ctid"), "nulltesttype": test}},
                "result": _make_action_condition(clauses, match),
            }
        }
        for test, match in matches.items()
    ]
    joined = {"jointype": "JOIN_LEFT", "larg": source, "rarg": {"RangeVar": relation}, "quals": condition}
    rows = _select(
        {
            "targetList": [_value(_TRUE)],
            "fromClause": [{"JoinExpr": joined}],
            "whereClause": {"CaseExpr": {"args": cases, "defresult": _FALSE}},
        }
    )
    if any(clause.get("matchKind") == "MERGE_WHEN_NOT_MATCHED_BY_SOURCE" for clause in clauses):
        rows = _select(
            {"op": "SETOP_UNION", "all": True, "larg": rows, "rarg": _select_unmatched_rows(message, clauses)}
        )
    if "withClause" in message:
        rows["withClause"] = message["withClause"]
    return rows


def _select_unmatched_rows(message: Message, clauses: Sequence[Message]) -> Message:
    """Return the rows of the table without a match in the source."""
    partner = _select(
        {
            "targetList": [_value(_TRUE)],
            "fromClause": [copy.deepcopy(message["sourceRelation"])],
            "whereClause": copy.deepcopy(message["joinCondition"]),
        }
    )
    exists = {"SubLink": {"subLinkType": "EXISTS_SUBLINK", "subselect": {"SelectStmt": partner}}}
    lonely = {"BoolExpr": {"boolop": "NOT_EXPR", "args": [exists]}}
    acted = _make_action_condition(clauses, "MERGE_WHEN_NOT_MATCHED_BY_SOURCE")
    return _select(
        {
            "targetList": [_value(_TRUE)],
            "fromClause": [{"RangeVar": message["relation"]}],  # the target itself: a table, whatever WITH names
            "whereClause": {"BoolExpr": {"boolop": "AND_EXPR", "args": [lonely, acted]}},
        }
    )


def _make_action_condition(clauses: Sequence[Message], match: str) -> Message:
    """Return the condition under which anything is done with a row: the first clause whose condition holds decides."""
    cases = [
        {
            "CaseWhen": {
                "expr": clause.get("condition", _TRUE),
                "result": _FALSE if clause.get("commandType") == "CMD_NOTHING" else _TRUE,
            }
        }
        for clause in clauses
        if clause.get("matchKind") == match
    ]
    return {"CaseExpr": {"args": cases, "defresult": _FALSE}} if cases else _FALSE


def _text(rows: Message, tables: Sequence[tuple[Message, Named]], schemas: Mapping[Named, str]) -> str:
    """Return the query's text, with the schema of every table. Raises Uncountable if the text would not have the tree's
    meaning."""
    for relation, name in tables:
        relation["schemaname"] = schemas[name]
    one_more = {"A_Const": {"ival": {"ival": MOST_ROWS + 1}}}
    rows = {**rows, "limitCount": one_more, "limitOption": "LIMIT_OPTION_COUNT"}
    count = {
        "funcname": [{"String": {"sval": "pg_catalog"}}, {"String": {"sval": "count"}}],
        "agg_star": True,
        "funcformat": "COERCE_EXPLICIT_CALL",
    }
    inner = {"subquery": {"SelectStmt": rows}, "alias": {"aliasname": "counted"}}
    whole = {
        "SelectStmt": _select({"targetList": [_value({"FuncCall": count})], "fromClause": [{"RangeSubselect": inner}]})
    }
    try:
        tree = json_format.ParseDict({"stmts": [{"stmt": whole}]}, pg_query_pb2.ParseResult())
        text = deparse(tree)
        (again, *more) = readings(text)[0]
    except (PgQueryError, UnreadablePostgres, json_format.ParseError, DecodeError, ValueError) as error:
        raise Uncountable(f"its count query could not be generated ({type(error).__name__})") from None
    if more or _placeless(again) != _placeless(whole):
        raise Uncountable("its count query could not be generated without changing its meaning")
    return text


def _placeless(value: object) -> object:
    """Return the tree without positions in its text."""
    if isinstance(value, dict):
        return {name: _placeless(child) for name, child in value.items() if name not in _PLACES}
    if isinstance(value, list):
        return [_placeless(item) for item in value]
    return value
