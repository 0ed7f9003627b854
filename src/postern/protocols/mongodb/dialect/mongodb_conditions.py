"""Whether a filter matches every document, as far as its text tells.

A condition that no field decides, but that cannot be computed here, can be true or false. For each part, `can_be`
therefore asks whether it can have the value that the whole needs for every document; `$not` and `$nor` ask for the
opposite. A filter that happens to match all documents, such as one about a field that none has, is a condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from postern.protocols.mongodb.dialect.mongodb_json import is_max_key, is_min_key, is_operator, is_scalar, number_of
from postern.protocols.mongodb.dialect.mongodb_operators import LITERALS

_EQUAL: Final = frozenset({"$eq", "$gte", "$lte"})
_UNEQUAL: Final = frozenset({"$ne", "$gt", "$lt"})
_OF_DOCUMENTS: Final = frozenset({"ROOT", "CURRENT"})  # all other variables are bound by the command itself
_ID: Final = "_id"  # the only field that every document has
_ANY_SCHEMA: Final = frozenset({"title", "description", "bsonType", "type", "required", "additionalProperties"})


def is_always_true(query: object) -> bool:
    """Return whether a filter can be true for every document."""
    return can_be(True, query)


def can_be(value: bool, query: object) -> bool:
    """Return whether a filter can have this value for every document, whatever is in the document."""
    if not isinstance(query, Mapping) or is_scalar(query):
        return query is None and value
    return _join(value, [_part(value, name, each) for name, each in query.items()], is_and=True)


def _join(value: bool, parts: list[bool], *, is_and: bool) -> bool:
    """Combine whether each part can have the value. No parts at all match everything, or are an error."""
    return not parts or all(parts) if is_and is value else any(parts) or (value and not parts)


def _part(value: bool, name: str, operand: object) -> bool:
    if name == "$and":
        return _join(value, [can_be(value, each) for each in _list(operand)], is_and=True)
    if name == "$or":
        parts = _list(operand)
        return _join(value, [can_be(value, each) for each in parts], is_and=False) or (value and _complement(parts))
    if name == "$nor":
        return _join(value, [can_be(not value, each) for each in _list(operand)], is_and=True)
    if name == "$expr":
        return can_expression_be(value, operand)
    if name == "$jsonSchema":
        return value and _is_any_schema(operand)
    if name == "$sampleRate":
        return (number_of(operand) or 0) >= 1 if value else number_of(operand) == 0
    if name in ("$comment", "$alwaysTrue"):
        return value
    if name in ("$alwaysFalse", "$text"):
        return not value and name == "$alwaysFalse"
    if name.startswith("$"):
        return True  # code, or unknown
    return can_predicate_be(value, name, operand)


def can_predicate_be(value: bool, field: str, predicate: object) -> bool:
    """Return whether the condition on one field can have this value for every document."""
    if is_operator(predicate):
        assert isinstance(predicate, Mapping)
        parts = [_operator(value, field, name, operand) for name, operand in predicate.items() if name != "$options"]
        return _join(value, parts, is_and=True)
    return not value and field == _ID and predicate is None


def _operator(value: bool, field: str, name: str, operand: object) -> bool:
    if name == "$not":
        return can_predicate_be(not value, field, operand)
    if name == "$nin":
        return value if operand == [] else value and field == _ID and operand == [None]
    if name in ("$in", "$all"):
        return not value and (operand == [] or (field == _ID and operand == [None]))
    if name == "$exists":
        return field == _ID and (number_of(operand) != 0) is value
    if name == "$ne":
        return value and field == _ID and operand is None
    if name == "$eq":
        return not value and field == _ID and operand is None
    if (name == "$gte" and is_min_key(operand)) or (name == "$lte" and is_max_key(operand)):
        return value
    if (name == "$gt" and is_min_key(operand)) or (name == "$lt" and is_max_key(operand)):
        return value and field == _ID
    return False


def _complement(parts: list[object]) -> bool:
    """Return whether one part is the opposite of another: `x` or not `x`."""
    return any(_is_negation(part, other) for part in parts for other in parts if part is not other)


def _is_negation(part: object, other: object) -> bool:
    if not isinstance(part, Mapping) or not isinstance(other, Mapping) or len(part) != 1 or len(other) != 1:
        return False
    (name, condition), (other_name, opposite) = next(iter(part.items())), next(iter(other.items()))
    if name == "$nor" and opposite is not None and _list(condition) == [other]:
        return True
    if name != other_name or not isinstance(opposite, Mapping) or len(opposite) != 1:
        return False
    operator, operand = next(iter(opposite.items()))
    if operator == "$not":
        return bool(operand == condition)
    if not is_operator(condition):
        return bool(operator == "$ne" and operand == condition)
    assert isinstance(condition, Mapping)
    if len(condition) != 1:
        return False
    first, value = next(iter(condition.items()))
    if first == operator == "$exists":
        return (number_of(operand) != 0) is not (number_of(value) != 0)
    pairs = {("$eq", "$ne"), ("$in", "$nin"), ("$gt", "$lte"), ("$gte", "$lt")}
    return value == operand and (first, operator) in pairs


def _is_any_schema(schema: object) -> bool:
    if not isinstance(schema, Mapping) or not set(schema) <= _ANY_SCHEMA:
        return False
    kinds = [schema.get("bsonType", "object"), schema.get("type", "object")]
    required = schema.get("required", [])
    is_open = schema.get("additionalProperties", True) is True
    return is_open and all(kind == "object" or kind == ["object"] for kind in kinds) and required in ([], ["_id"])


# Expressions


def can_expression_be(value: bool, node: object) -> bool:
    """Return whether an expression can be true, or false, for every document."""
    if isinstance(node, str):
        if node.startswith("$$"):
            return value if node in ("$$ROOT", "$$CURRENT", "$$CURRENT._id", "$$ROOT._id") else _is_constant(node)
        return value and node == "$_id" if node.startswith("$") else value
    if isinstance(node, list):
        return value
    if not isinstance(node, Mapping) or is_scalar(node):
        return _is_truthy(node) is value
    if not is_operator(node):
        return value  # a document is true
    name, operand = next(iter(node.items()))
    if name in LITERALS:
        return _is_truthy(operand) is value
    rule = _RULES.get(name)
    if rule is not None and rule(value, operand):
        return True
    return _is_constant(node)


def _is_truthy(literal: object) -> bool:
    return literal is not None and number_of(literal) != 0


def _not(value: bool, operand: object) -> bool:
    operands = operand if isinstance(operand, list) else [operand]
    return len(operands) != 1 or can_expression_be(not value, operands[0])


def _and(value: bool, operand: object) -> bool:
    return _join(value, [can_expression_be(value, each) for each in _list(operand)], is_and=True)


def _or(value: bool, operand: object) -> bool:
    parts = _list(operand)
    negated = [each["$not"] for each in parts if isinstance(each, Mapping) and set(each) == {"$not"}]
    opposites = [each[0] if isinstance(each, list) and len(each) == 1 else each for each in negated]
    if value and any(part in opposites for part in parts):
        return True
    return _join(value, [can_expression_be(value, each) for each in parts], is_and=False) or (not value and not parts)


def _compare(name: str) -> Callable[[bool, object], bool]:
    def judge(value: bool, operand: object) -> bool:
        if not isinstance(operand, list) or len(operand) != 2:
            return False
        left, right = operand
        if left == right:
            return (name in _EQUAL) is value
        if name == "$gte" or name == "$gt":
            return value and is_min_key(right) and (name == "$gte" or left == "$_id")
        if name == "$lte" or name == "$lt":
            return value and is_max_key(right) and (name == "$lte" or left == "$_id")
        return name == "$ne" and value and {str(left), str(right)} == {"$_id", "None"}

    return judge


def _cond(value: bool, operand: object) -> bool:
    branches = [operand.get("then"), operand.get("else")] if isinstance(operand, Mapping) else _list(operand)[1:]
    return len(branches) == 2 and all(can_expression_be(value, branch) for branch in branches)


def _to_bool(value: bool, operand: object) -> bool:
    return can_expression_be(value, operand)


def _always(kind: bool) -> Callable[[bool, object], bool]:
    return lambda value, operand: value is kind


_RULES: Final[dict[str, Callable[[bool, object], bool]]] = {
    "$and": _and,
    "$or": _or,
    "$not": _not,
    "$cond": _cond,
    "$toBool": _to_bool,
    **{name: _compare(name) for name in _EQUAL | _UNEQUAL},
    "$mergeObjects": _always(True),
    "$type": _always(True),
    "$concatArrays": _always(True),
    "$objectToArray": _always(True),
}


def _is_constant(node: object) -> bool:
    """Return whether an expression uses no field of the document."""
    if isinstance(node, str):
        if not node.startswith("$"):
            return True
        return node.startswith("$$") and node[2:].partition(".")[0] not in _OF_DOCUMENTS
    if isinstance(node, list):
        return all(map(_is_constant, node))
    if isinstance(node, Mapping) and not is_scalar(node):
        return all(name in LITERALS or _is_constant(operand) for name, operand in node.items())
    return True


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]
