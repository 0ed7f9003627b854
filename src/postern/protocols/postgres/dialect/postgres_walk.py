"""The walk over the tree of one statement, which collects its findings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectKind
from postern.inspection.sql.postgres.postgres_tree import Message, children, node
from postern.inspection.sql.sql_parser import NO_CATALOGUE
from postern.protocols.postgres.dialect.postgres_findings import Findings
from postern.protocols.postgres.dialect.postgres_names import TargetNames, is_of_system
from postern.protocols.postgres.dialect.postgres_settings import change_setting
from postern.protocols.postgres.dialect.postgres_system_catalogue import KEPT_RELATIONS

Scope = frozenset[str] | None
"""The names of WITH queries that are visible here; None outside of queries, where a table is only named."""

# Values of any column, as samples.
_STATISTICS: Final = frozenset(
    {"pg_statistic", "pg_statistic_ext_data", "pg_stats", "pg_stats_ext", "pg_stats_ext_exprs"}
)
_OF_SEQUENCES: Final = frozenset({"nextval", "setval", "currval", "pg_sequence_last_value"})

# Settings that pg_dump sets with a computed name, in every version since 2024. No important setting accepts this value:
# it is not a role, an encoding, a schema, a number or a switch.
_OF_PG_DUMP: Final = "view, foreign-table"

Handler = Callable[["Walk", Message, Scope], None]

_PLAIN: Final = """
A_ArrayExpr A_Const A_Indices A_Star Alias BitString BoolExpr Boolean BooleanTest CTECycleClause CTESearchClause
CaseWhen CoalesceExpr CollateClause CurrentOfExpr DefElem Float GroupingFunc GroupingSet IndexElem InferClause
Integer JsonAggConstructor JsonArgument JsonArrayAgg JsonArrayConstructor JsonArrayQueryConstructor
JsonBehavior JsonFormat JsonFuncExpr JsonIsPredicate JsonKeyValue JsonObjectAgg JsonObjectConstructor JsonParseExpr
JsonReturning JsonScalarExpr JsonSerializeExpr JsonTable JsonTablePathSpec JsonValueExpr List MergeSupportFunc
MinMaxExpr MultiAssignRef NamedArgExpr NullTest OnConflictClause ParamRef RangeSubselect RangeTableFunc ResTarget
ReturningClause ReturningOption RowExpr SQLValueFunction SetToDefault String WindowDef XmlExpr
"""
PLAIN: Final = frozenset(_PLAIN.split())
"""Their effects are those of their parts."""


class Walk:
    """Walks a tree. `code(text)` returns the effects of a text that is nested in the statement, or in a view that it
    reads."""

    def __init__(
        self, target_names: TargetNames, handlers: dict[str, Handler], code: Callable[[str], Findings]
    ) -> None:
        self.target_names = target_names
        self.found = Findings()
        self.code = code
        self._handlers = handlers
        self._waiting: list[tuple[str, Message, Scope]] = []

    def run(self, kind: str, message: Message, scope: Scope = None) -> Findings:
        self._waiting.append((kind, message, scope))
        while self._waiting:
            kind, message, scope = self._waiting.pop()
            handler = self._handlers.get(kind)
            if handler is not None:
                handler(self, message, scope)
            elif kind in PLAIN:
                self.inside(kind, message, scope)
            else:
                self.found.unknown(f"it contains something unknown ({kind or 'a field'})")
        return self.found

    def apart(self, value: Message | None, scope: Scope = None) -> Findings:
        """Return the findings of a nested `Node`, separately."""
        kind, message = node(value)
        walk = Walk(self.target_names, self._handlers, self.code)
        return walk.run(kind, message, scope) if kind else walk.found

    def inside(self, kind: str, message: Message, scope: Scope, leave: tuple[str, ...] = ()) -> None:
        """Queue all fields of the message for the walk, except `leave`."""
        for field, child_kind, child in children(kind, message):
            if field not in leave:
                self._waiting.append((child_kind, child, scope))

    def later(self, kind: str, message: Message, scope: Scope) -> None:
        self._waiting.append((kind, message, scope))

    def enter_with_clause(self, message: Message, scope: Scope) -> frozenset[str]:
        """Enter the WITH of a statement. Return its names and those of the outer scope."""
        outside = scope or frozenset()
        clause = message.get("withClause")
        if clause is None:
            return outside
        queries = [element["CommonTableExpr"] for element in clause.get("ctes", ())]
        everything = outside | {query["ctename"] for query in queries}
        sees = everything if clause.get("recursive") else outside
        for query in queries:
            self.inside("CommonTableExpr", query, sees)
            if not clause.get("recursive"):
                sees |= {query["ctename"]}
        return everything

    def reads_relation(self, relation: Message, scope: Scope) -> None:
        parts = relation_name(relation)
        if scope is not None and len(parts) == 1 and parts[0] in scope:
            return
        self.names_relation(parts)
        if scope is None:
            return
        if is_of_system(parts):
            if parts[-1] in KEPT_RELATIONS:
                self.found.effects.add(Effect.ADMIN)
            if parts[-1] in _STATISTICS:
                self.found.objects.add(EVERYTHING)
        elif not self.target_names.has_catalogue:
            self.found.untraced = NO_CATALOGUE
        if not self.target_names.relation_known(parts):
            self.found.unknown(f"relation {'.'.join(parts)} is unknown")
        for target_relation in self.target_names.relations(parts):
            if target_relation.definition:
                self.found.join(self.code(target_relation.definition))

    def names_relation(self, parts: list[str]) -> None:
        self.found.touches(ObjectKind.TABLE, parts)
        for relation in self.target_names.relations(parts):
            for schema, name in self.target_names.family(relation):
                self.found.touches(ObjectKind.TABLE, [schema, name])

    def writes_relation(self, relation: Message) -> None:
        parts = relation_name(relation)
        self.found.effects.add(Effect.WRITE)
        self.reads_relation(relation, frozenset())
        if is_of_system(parts):
            self.found.effects.add(Effect.ADMIN)
            if parts[-1] == "pg_settings":
                self.found.encodes = True
                self.found.unknown("writing to pg_settings changes any setting")

    def calls(self, parts: list[str], message: Message) -> None:
        """Record a call of a function by its name; `message` has its arguments."""
        self.found.touches(ObjectKind.FUNCTION, parts)
        effects = self.target_names.function(parts)
        if effects is None:
            self.found.unknown(f"function {'.'.join(parts)}() is unknown")
            return
        self.found.effects |= effects - {Effect.READ}  # the query around the value records the READ
        if Effect.UNKNOWN in effects:
            self.found.unknown(f"{parts[-1]}() runs a text that it receives")
        if parts[-1] == "set_config":
            _set_config(message.get("args", []), self.found)
        elif parts[-1] in _OF_SEQUENCES and message.get("args"):
            self.named_by_text(message["args"][0])

    def named_by_text(self, value: Message) -> None:
        """Record a constant that names a table or a sequence, such as 'app.counter'::regclass."""
        kind, content = node(value)
        while kind == "TypeCast":
            kind, content = node(content["arg"])
        if kind == "A_Const" and "sval" in content:
            parts = [part.strip(' "') for part in content["sval"].get("sval", "").split(".")]
            self.names_relation(parts)

    def casts(self, parts: list[str]) -> None:
        """Record a cast to the type of that name."""
        if parts and not self.target_names.type_known(parts):
            self.found.unknown(f"type {'.'.join(parts)} is unknown, so a cast to it could run any function")

    def operates(self, parts: list[str]) -> None:
        if parts and not self.target_names.operator_known(parts):
            self.found.unknown(f"operator {'.'.join(parts)} is unknown")


def relation_name(relation: Message) -> list[str]:
    name = relation.get("relname", "")
    return [relation["schemaname"], name] if relation.get("schemaname") else [name]


def _set_config(arguments: list[Message], findings: Findings) -> None:
    literals = []
    for argument in arguments[:2]:
        kind, content = node(argument)
        if kind == "NamedArgExpr":  # in any order
            break
        while kind == "TypeCast":
            kind, content = node(content["arg"])
        literals.append(content["sval"].get("sval", "") if kind == "A_Const" and "sval" in content else None)
    if len(literals) == 2 and literals[1] == _OF_PG_DUMP:
        findings.effects.add(Effect.SESSION)
        return
    if len(literals) < 2 or literals[0] is None:
        findings.encodes = True
        findings.unknown("the setting that set_config() changes is not in its text")
        return
    change_setting(literals[0], None if literals[1] is None else [literals[1]], findings)
