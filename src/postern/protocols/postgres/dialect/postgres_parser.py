"""The parser of PostgreSQL's dialect, and the tables that a statement reads whole (`Statement.scans`).

A query returns all rows of a table unless a condition that names a column, or a limit, restricts them, in the query
itself or in one around it. An aggregate over all rows restricts them as well, unless it collects them (`array_agg`) or
groups them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName, Statement
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.postgres.postgres_tree import Message, UnreadablePostgres, children, names, node, readings
from postern.inspection.sql.shared import Shared
from postern.inspection.sql.sql_cache import TextCache
from postern.inspection.sql.sql_parser import unknown
from postern.protocols.postgres.dialect.postgres_conditions import passes_every_row
from postern.protocols.postgres.dialect.postgres_findings import Findings
from postern.protocols.postgres.dialect.postgres_names import TargetNames, is_of_system
from postern.protocols.postgres.dialect.postgres_shapes import POSTGRES_SHAPES
from postern.protocols.postgres.dialect.postgres_statements import HANDLERS, tag_of
from postern.protocols.postgres.dialect.postgres_walk import Walk

_ONE_VALUE_WORDS: Final = """
    any_value avg bit_and bit_or bit_xor bool_and bool_or corr count covar_pop covar_samp every max min
    percentile_cont percentile_disc regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy
    regr_syy stddev stddev_pop stddev_samp sum var_pop var_samp variance
"""
_ONE_VALUE: Final = frozenset(_ONE_VALUE_WORDS.split())
_COLLECTING_WORDS: Final = """
    array_agg json_agg json_agg_strict json_object_agg json_object_agg_strict json_object_agg_unique
    json_object_agg_unique_strict jsonb_agg jsonb_agg_strict jsonb_object_agg jsonb_object_agg_strict
    jsonb_object_agg_unique jsonb_object_agg_unique_strict range_agg string_agg xmlagg
"""
_COLLECTING: Final = frozenset(_COLLECTING_WORDS.split())
_CHANGES: Final = frozenset({"DeleteStmt", "InsertStmt", "MergeStmt", "UpdateStmt"})
_NOTHING: Final[frozenset[ObjectName]] = frozenset()

Scans = frozenset[ObjectName]
Ctes = Mapping[str, Scans]


def scans_of(kind: str, message: Message) -> Scans:
    """Return the scans of a whole statement, including nested ones: cursors, copies, prepared or explained
    statements."""
    if kind == "SelectStmt" or kind in _CHANGES:
        return _query(kind, message, {})
    if kind == "ExplainStmt":
        runs = any(element["DefElem"].get("defname") == "analyze" for element in message.get("options", ()))
        return scans_of(*node(message.get("query"))) if runs else _NOTHING
    if kind == "CopyStmt":
        if message.get("is_from"):
            return _NOTHING
        table = message.get("relation")
        return _table(table, {}) if table else scans_of(*node(message.get("query")))
    if kind in ("DeclareCursorStmt", "PrepareStmt", "CreateTableAsStmt"):
        return scans_of(*node(message.get("query")))
    return _NOTHING


def _query(kind: str, message: Message, ctes: Ctes) -> Scans:
    """Return the scans of a query or a change: the tables of the rows that it returns or writes."""
    here = _ctes(message, ctes)
    changed = _NOTHING.union(*(object_names for name, object_names in here.items() if name.startswith("*")))
    if kind == "SelectStmt":
        return _select(message, here) | changed
    if kind == "InsertStmt":
        return _scan_subquery(message.get("selectStmt"), here) | changed
    returns = kind in ("DeleteStmt", "UpdateStmt") and bool(message.get("returningClause"))
    if returns and passes_every_row(message.get("whereClause")):
        return _table(message["relation"], {}) | changed
    return changed


def _scan_subquery(value: Message | None, ctes: Ctes) -> Scans:
    kind, message = node(value)
    return _query(kind, message, ctes) if kind else _NOTHING


def _ctes(message: Message, outside: Ctes) -> dict[str, Scans]:
    """Return the scans of WITH queries by name. Those that write have no name here, because they run even if nothing
    reads them."""
    scans_by_name = {name: scans for name, scans in outside.items() if not name.startswith("*")}
    clause = message.get("withClause", {})
    queries = [element["CommonTableExpr"] for element in clause.get("ctes", ())]
    if clause.get("recursive"):
        scans_by_name |= dict.fromkeys((query["ctename"] for query in queries), _NOTHING)
    for query in queries:
        kind, inner = node(query.get("ctequery"))
        scans = _query(kind, inner, scans_by_name)
        scans_by_name[query["ctename"]] = scans
        if kind == "InsertStmt":
            scans_by_name[f"*{query['ctename']}"] = scans
    return scans_by_name


def _select(select: Message, ctes: Ctes) -> Scans:
    if _is_limited(select):
        return _NOTHING
    if select.get("larg"):
        return _query("SelectStmt", select["larg"], ctes) | _query("SelectStmt", select["rarg"], ctes)
    targets = select.get("targetList", [])
    object_names = _NOTHING
    for value in targets:
        for link in _links(value):
            object_names |= _scan_subquery(link.get("subselect"), ctes)
    if not passes_every_row(select.get("whereClause")) or (not select.get("groupClause") and _is_one_row(targets)):
        return object_names
    for element in select.get("fromClause", ()):
        object_names |= _from(element, ctes)
    return object_names


def _is_limited(select: Message) -> bool:
    kind, count = node(select.get("limitCount"))
    return bool(kind) and not (kind == "A_Const" and count.get("isnull"))  # LIMIT ALL and LIMIT NULL


def _from(element: Message, ctes: Ctes) -> Scans:
    kind, message = node(element)
    if kind == "RangeVar":
        return _table(message, ctes)
    if kind == "RangeSubselect":
        return _scan_subquery(message.get("subquery"), ctes)
    if kind == "JoinExpr":
        return _from(message["larg"], ctes) | _from(message["rarg"], ctes)
    if kind == "RangeTableSample":
        return _from(message["relation"], ctes)
    return _NOTHING


def _table(relation: Message, ctes: Ctes) -> Scans:
    schema, name = relation.get("schemaname", ""), relation.get("relname", "")
    if not schema and name in ctes:
        return ctes[name]
    if is_of_system([schema, name] if schema else [name]):
        return _NOTHING
    return frozenset({ObjectName(ObjectKind.TABLE, name, schema)})


def _is_one_row(targets: list[Message]) -> bool:
    called = [call for value in targets for call in _calls(value)]
    functions = {names(call.get("funcname"))[-1] for call in called if "over" not in call}
    return bool(functions & _ONE_VALUE) and not functions & _COLLECTING


def _calls(value: Message) -> Iterator[Message]:
    """Return the calls in an expression that depend on the rows of its own query."""
    return (message for kind, message in _inside(value) if kind == "FuncCall")


def _links(value: Message) -> Iterator[Message]:
    return (
        message
        for kind, message in _inside(value)
        if kind == "SubLink" and message.get("subLinkType") in ("EXPR_SUBLINK", "ARRAY_SUBLINK")
    )


def _inside(value: Message) -> Iterator[tuple[str, Message]]:
    waiting = [node(value)]
    while waiting:
        kind, message = waiting.pop()
        yield kind, message
        if kind != "SubLink":
            waiting += [(child_kind, child) for _, child_kind, child in children(kind, message)]


CACHED_SCHEMAS = 8
DEEPEST_CODE = 8  # views that read views, functions within functions
_TWO_WAYS: Final = "it contains a backslash, whose meaning depends on standard_conforming_strings"


@dataclass(frozen=True, slots=True)
class AnalysedStatement:
    """A statement with its analysis: the name that it prepares or executes, if any, and whether it may set a client
    encoding that Postern cannot read."""

    statement: Statement
    prepares: str | None = None
    executes: str | None = None
    encodes: bool = False


class PostgresParser(Shared):
    """Analyses statements alike for `standard_conforming_strings` on and off, and for PostgreSQL 15 and 18. A statement
    whose effects differ between these readings is unknown.

    The latest results are cached by text; one parser serves a whole process. A `TargetSchema` is identified by its
    object identity: reading a catalogue again makes a new one.
    """

    dialect = "postgres"
    shapes = POSTGRES_SHAPES

    def __init__(self) -> None:
        self._cache: TextCache[tuple[AnalysedStatement, ...]] = TextCache()
        self._names: list[tuple[TargetSchema | None, TargetNames]] = []

    def parse(self, text: str, schema: TargetSchema | None = None) -> tuple[Statement, ...]:
        """Parse a text; see the port. Texts of more than 1 MiB are unknown."""
        return tuple(statement.statement for statement in self.judge(text, schema))

    def judge(self, text: str, schema: TargetSchema | None = None) -> tuple[AnalysedStatement, ...]:
        """Parse a text as `parse` does, with the names of prepared statements."""
        return self._cache.of(text, schema, self._judge_uncached)

    def _get_target_names(self, schema: TargetSchema | None) -> TargetNames:
        for cached_schema, target_names in self._names:
            if cached_schema is schema:
                return target_names
        target_names = TargetNames(schema)
        self._names = [(schema, target_names), *self._names[: CACHED_SCHEMAS - 1]]
        return target_names

    def _judge_uncached(self, text: str, schema: TargetSchema | None) -> tuple[AnalysedStatement, ...]:
        target_names = self._get_target_names(schema)
        try:
            ways = [[_walk(statement, target_names, 0) for statement in way] for way in readings(text)]
        except UnreadablePostgres as error:
            return (AnalysedStatement(unknown(str(error)), encodes=True),)
        except RecursionError:
            return (AnalysedStatement(unknown("it is nested too deeply"), encodes=True),)
        except Exception as error:  # fail closed; a test checks that no known statement fails for this reason
            return (AnalysedStatement(unknown(f"it could not be evaluated ({type(error).__name__})"), encodes=True),)
        judged = [
            tuple(
                AnalysedStatement(statement.statement(), statement.prepares, statement.executes, statement.encodes)
                for statement in way
            )
            for way in ways
        ]
        if len(judged) == 1 or judged[0] == judged[1]:
            return judged[0]
        return tuple(_doubtful(statement) for way in judged for statement in way)


def _walk(statement: Message, target_names: TargetNames, deep: int) -> Findings:
    kind, message = node(statement)
    findings = Walk(target_names, HANDLERS, _code(target_names, deep + 1)).run(kind, message)
    findings.tag = tag_of(kind, message)
    findings.scans = scans_of(kind, message)
    return findings


def _code(target_names: TargetNames, deep: int) -> Callable[[str], Findings]:
    def code(text: str) -> Findings:
        findings = Findings()
        if deep > DEEPEST_CODE:
            findings.unknown("views and functions in it are nested too deeply")
            return findings
        try:
            for way in readings(text):
                for statement in way:
                    findings.join(_walk(statement, target_names, deep))
        except UnreadablePostgres as error:
            findings.unknown(f"code in it: {error}")
        return findings

    return code


def _doubtful(analysed: AnalysedStatement) -> AnalysedStatement:
    statement = analysed.statement
    reason = "; ".join(filter(None, (statement.reason, _TWO_WAYS)))
    return replace(analysed, statement=replace(statement, effects=statement.effects | {Effect.UNKNOWN}, reason=reason))
