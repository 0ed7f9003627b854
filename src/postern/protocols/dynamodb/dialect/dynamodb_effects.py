"""What an operation with its parameters would do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from postern.domain.rules.statement import EVERYTHING, Effect, ObjectName, Statement
from postern.protocols.dynamodb.dialect.dynamodb_json import DynamodbOperation, Parameters
from postern.protocols.dynamodb.dialect.dynamodb_names import (
    index_in,
    index_object,
    table_name,
    table_object,
    table_of_iterator,
)
from postern.protocols.dynamodb.dialect.dynamodb_operations import OPERATIONS, OperationFacts
from postern.protocols.dynamodb.dialect.dynamodb_partiql import (
    PartiqlStatement,
    UnreadableStatement,
    read_partiql,
)

_EFFECT_OF_VERB: Final = {
    "SELECT": Effect.READ,
    "EXISTS": Effect.READ,
    "INSERT": Effect.WRITE,
    "UPDATE": Effect.WRITE,
    "DELETE": Effect.WRITE,
}
_NO_TABLE: Final = "it names its table in a way that is not known"
_NO_COMPARISON: Final = re.compile(r"attribute_(?:not_)?exists|\b(?:and|or|not)\b|[()\s,]", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r":[A-Za-z0-9_]+")
_NAME: Final = re.compile(r"#?[A-Za-z_][A-Za-z0-9_]*")
_FUNCTIONS: Final = frozenset(
    {
        *("and", "or", "not", "in", "between", "attribute_exists", "attribute_not_exists", "attribute_type"),
        *("begins_with", "contains", "size"),
    }
)
_NO_OPERATORS: Final = frozenset({"NULL", "NOT_NULL"})


@dataclass
class DynamodbDraft:
    """A statement that is being built."""

    tag: str
    effects: set[Effect] = field(default_factory=set)
    objects: set[ObjectName] = field(default_factory=set)
    scans: set[ObjectName] = field(default_factory=set)
    reason: str = ""
    untraced: str = ""

    def add_unknown(self, reason: str) -> None:
        """Add an unknown effect, on anything."""
        self.effects.add(Effect.UNKNOWN)
        self.objects.add(EVERYTHING)
        self.reason = self.reason or reason

    def add_table(self, value: object, index: object = None) -> ObjectName | None:
        """Add a table that is given by name or ARN, and an index of it."""
        name = table_name(value)
        if not name or not (index is None or (isinstance(index, str) and index)):
            self.add_unknown(_NO_TABLE)
            return None
        touched = table_object(name)
        self.objects.add(touched)
        for each in (index, index_in(value)):
            if each:
                self.objects.add(index_object(name, str(each)))
        return touched

    def finish(self) -> Statement:
        if not self.effects:
            self.add_unknown("its effect is unknown")
        return Statement(
            self.tag,
            frozenset(self.effects),
            frozenset(self.objects),
            reason=self.reason,
            scans=frozenset(self.scans),
            untraced=self.untraced,
        )


def judge_operation(operation: DynamodbOperation) -> Statement:
    """Return what an operation would do."""
    name, parameters = operation
    draft = DynamodbDraft(name)
    facts = OPERATIONS.get(name)
    if facts is None:
        draft.add_unknown(f"the operation {name} is not known")
        return draft.finish()
    draft.effects.update(facts.effects)
    _add_tables(draft, facts, parameters)
    if facts.is_special:
        _SPECIAL[name](draft, parameters)
    return draft.finish()


def _add_tables(draft: DynamodbDraft, facts: OperationFacts, parameters: Parameters) -> None:
    named = [parameters[parameter] for parameter in facts.tables if parameters.get(parameter) is not None]
    index = parameters.get("IndexName")
    for value in named:
        draft.add_table(value, index)
    if facts.tables and not named and not facts.optional:
        draft.add_unknown(_NO_TABLE)


# Reading


def _scan(draft: DynamodbDraft, parameters: Parameters) -> None:
    is_first_page = not parameters.get("ExclusiveStartKey") and "TotalSegments" not in parameters
    is_limited = is_first_page and bool(parameters.get("Limit"))
    if parameters.get("Select") == "COUNT" or is_limited or _has_filter(parameters):
        return
    name = table_name(parameters.get("TableName"))
    if name:
        draft.scans.add(table_object(name))


def _has_filter(parameters: Parameters) -> bool:
    """Return whether a condition compares an attribute with a value: `attribute_exists(id)` is true of every item."""
    legacy = parameters.get("ScanFilter")
    if isinstance(legacy, Mapping):
        return any(
            isinstance(each, Mapping) and each.get("ComparisonOperator") not in _NO_OPERATORS
            for each in legacy.values()
        )
    expression = parameters.get("FilterExpression")
    if not isinstance(expression, str):
        return False
    if not re.search(r"[:=<>]|\bin\b|\bbetween\b", _NO_COMPARISON.sub(" ", expression), re.IGNORECASE):
        return False
    names = _NAME.findall(_PLACEHOLDER.sub(" ", expression))
    return any(name.lower() not in _FUNCTIONS for name in names)


def _query(draft: DynamodbDraft, parameters: Parameters) -> None:
    """Add nothing: a query has a condition on the partition key."""


def _batch_get(draft: DynamodbDraft, parameters: Parameters) -> None:
    _add_keys(draft, parameters.get("RequestItems"))


def _add_keys(draft: DynamodbDraft, items: object) -> None:
    """Add the tables that are the names of an object's fields."""
    if not isinstance(items, Mapping) or not items:
        draft.add_unknown(_NO_TABLE)
        return
    for table in items:
        draft.add_table(table)


def _transact_get(draft: DynamodbDraft, parameters: Parameters) -> None:
    for action, content in _actions(draft, parameters.get("TransactItems")):
        if action != "Get":
            draft.add_unknown(f"the action {action[:64]} is not known")
        draft.add_table(content.get("TableName"))


def _actions(draft: DynamodbDraft, items: object) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the actions of a transaction with their parameters."""
    actions: list[tuple[str, Mapping[str, Any]]] = []
    if isinstance(items, Sequence) and not isinstance(items, str):
        for item in items:
            if not isinstance(item, Mapping) or not item:
                draft.add_unknown("an action of the transaction cannot be read")
                continue
            for action, content in item.items():
                if isinstance(content, Mapping):
                    actions.append((str(action), content))
                elif content is not None:
                    draft.add_unknown("an action of the transaction cannot be read")
    if not actions:
        draft.add_unknown("the transaction has no action that can be read")
    return actions


def _get_records(draft: DynamodbDraft, parameters: Parameters) -> None:
    table = table_of_iterator(parameters.get("ShardIterator"))
    if table:
        draft.add_table(table)
    else:
        draft.objects.add(EVERYTHING)
        draft.untraced = "the iterator does not say which table's stream it reads"


# Writing


def _write(draft: DynamodbDraft, parameters: Parameters) -> None:
    """Add that the operation returns an item, if it does."""
    if parameters.get("ReturnValues") not in (None, "NONE") or _returns_on_failure(parameters):
        draft.effects.add(Effect.READ)


def _returns_on_failure(parameters: Mapping[str, Any]) -> bool:
    return parameters.get("ReturnValuesOnConditionCheckFailure") not in (None, "NONE")


def _batch_write(draft: DynamodbDraft, parameters: Parameters) -> None:
    _add_keys(draft, parameters.get("RequestItems"))


def _transact_write(draft: DynamodbDraft, parameters: Parameters) -> None:
    for action, content in _actions(draft, parameters.get("TransactItems")):
        draft.add_table(content.get("TableName"))
        if action == "ConditionCheck" or _returns_on_failure(content):
            draft.effects.add(Effect.READ)
        if action not in ("ConditionCheck", "Put", "Delete", "Update"):
            draft.add_unknown(f"the action {action[:64]} is not known")


# PartiQL


def _execute_statement(draft: DynamodbDraft, parameters: Parameters) -> None:
    is_limited = bool(parameters.get("Limit")) and not parameters.get("NextToken")
    _add_statement(draft, parameters, is_limited=is_limited)


def _execute_batch(draft: DynamodbDraft, parameters: Parameters) -> None:
    _add_statements(draft, parameters.get("Statements"))


def _execute_transaction(draft: DynamodbDraft, parameters: Parameters) -> None:
    _add_statements(draft, parameters.get("TransactStatements"))


def _add_statements(draft: DynamodbDraft, statements: object) -> None:
    if not isinstance(statements, Sequence) or isinstance(statements, str) or not statements:
        draft.add_unknown("it has no statement that can be read")
        return
    for each in statements:
        _add_statement(draft, each if isinstance(each, Mapping) else {}, is_limited=False)


def _add_statement(draft: DynamodbDraft, content: Mapping[str, Any], *, is_limited: bool) -> None:
    try:
        statement = read_partiql(content.get("Statement"))
    except UnreadableStatement as error:
        draft.add_unknown(str(error))
        return
    draft.effects.add(_EFFECT_OF_VERB[statement.verb])
    if statement.returns or _returns_on_failure(content):
        draft.effects.add(Effect.READ)
    for table in statement.tables:
        draft.add_table(table.table, table.index or None)
    _add_scan(draft, statement, is_limited=is_limited)


def _add_scan(draft: DynamodbDraft, statement: PartiqlStatement, *, is_limited: bool) -> None:
    name = table_name(statement.tables[0].table)
    if statement.verb == "SELECT" and not statement.has_condition and not is_limited and name:
        draft.scans.add(table_object(name))


# Tables


def _create_table(draft: DynamodbDraft, parameters: Parameters) -> None:
    if parameters.get("ResourcePolicy") is not None:
        draft.effects.add(Effect.GRANT)


def _import_table(draft: DynamodbDraft, parameters: Parameters) -> None:
    creation = parameters.get("TableCreationParameters")
    draft.add_table(creation.get("TableName") if isinstance(creation, Mapping) else None)


_Judge = Callable[[DynamodbDraft, Parameters], None]

_SPECIAL: Final[Mapping[str, _Judge]] = {
    "BatchExecuteStatement": _execute_batch,
    "BatchGetItem": _batch_get,
    "BatchWriteItem": _batch_write,
    "CreateTable": _create_table,
    "DeleteItem": _write,
    "ExecuteStatement": _execute_statement,
    "ExecuteTransaction": _execute_transaction,
    "GetRecords": _get_records,
    "ImportTable": _import_table,
    "PutItem": _write,
    "Query": _query,
    "Scan": _scan,
    "SearchVectors": _query,
    "TransactGetItems": _transact_get,
    "TransactWriteItems": _transact_write,
    "UpdateItem": _write,
}
