"""Search for operators that run code, or that are not known, in expressions, filters, projections and updates.

Each function returns why the effect of its argument is unknown; an empty text if all of it is known to change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from postern.protocols.mongodb.dialect import mongodb_operators as operators
from postern.protocols.mongodb.dialect.mongodb_json import is_operator, is_scalar


def describe_unknown_operator(name: str, what: str = "operator") -> str:
    if name in operators.CODE:
        return f"{name} runs code, whose effect cannot be determined"
    return f"the {what} {name[:64]} is not known"


def _first(reasons: Iterable[str]) -> str:
    return next((reason for reason in reasons if reason), "")


def check_expression(value: object, known: frozenset[str] = operators.EXPRESSIONS) -> str:
    if isinstance(value, list):
        return _first(map(check_expression, value))
    if not isinstance(value, Mapping) or is_scalar(value):
        return ""
    if not is_operator(value):
        return _first(map(check_expression, value.values()))
    name, operand = next(iter(value.items()))
    if len(value) != 1:
        unknown = next((each for each in value if each.startswith("$") and each not in known), "")
        return describe_unknown_operator(unknown) if unknown else f"{name[:64]} stands beside other fields"
    if name not in known:
        return describe_unknown_operator(name)
    return "" if name in operators.LITERALS else check_expression(operand)


def check_query(value: object) -> str:
    """Check a filter."""
    if not isinstance(value, Mapping) or is_scalar(value):
        return "" if value is None else "a filter is not a document"
    return _first(_check_clause(name, operand) for name, operand in value.items())


def _check_clause(name: str, operand: object) -> str:
    if name in operators.QUERY_CONNECTORS:
        return _first(map(check_query, operand)) if isinstance(operand, list) else f"{name} is not a list"
    if name == "$expr":
        return check_expression(operand)
    if name in operators.QUERY_WHOLE:
        return ""
    if name.startswith("$") and name not in operators.QUERY_PREDICATES:
        return describe_unknown_operator(name)
    return check_predicate(operand)


def check_predicate(value: object) -> str:
    """Check the condition on a field."""
    if not is_operator(value):
        return ""
    assert isinstance(value, Mapping)
    return _first(_check_predicate(name, operand) for name, operand in value.items())


def _check_predicate(name: str, operand: object) -> str:
    if name == "$not":
        return check_predicate(operand)
    if name == "$elemMatch":
        return check_query(operand)
    if name == "$all":
        return _first(map(check_predicate, operand)) if isinstance(operand, list) else ""
    if name.startswith("$") and name not in operators.QUERY_PREDICATES:
        return describe_unknown_operator(name)
    return "" if name.startswith("$") else f"{name[:64]!r} stands beside operators"


def check_projection(value: object) -> str:
    """Check the projection of a find, or of $project."""
    if not isinstance(value, Mapping):
        return "" if value is None else "a projection is not a document"
    return _first(map(_check_projected, value.values()))


def _check_projected(value: object) -> str:
    if isinstance(value, Mapping) and not is_scalar(value):
        if set(value) == {"$elemMatch"}:
            return check_query(value["$elemMatch"])
        if not is_operator(value):
            return check_projection(value)
    return check_expression(value)


def check_update(value: object) -> str:
    """Check an update without a pipeline: operators, or a whole document."""
    if not isinstance(value, Mapping) or is_scalar(value):
        return "an update is not a document"
    if not any(name.startswith("$") for name in value):
        return ""
    return _first(_check_update(name, operand) for name, operand in value.items())


def _check_update(name: str, operand: object) -> str:
    if name not in operators.UPDATES:
        return describe_unknown_operator(name)
    if name == "$pull" and isinstance(operand, Mapping):
        return _first(_check_pulled(each) for each in operand.values())
    return ""


def _check_pulled(value: object) -> str:
    """Check what $pull removes: a condition on elements, or on their fields."""
    if is_operator(value):
        return _check_either(value)
    return check_query(value) if isinstance(value, Mapping) and not is_scalar(value) else ""


def _check_either(value: object) -> str:
    return check_predicate(value) and check_query(value)


def check_accumulators(value: object, known: frozenset[str] = operators.ACCUMULATORS) -> str:
    """Check fields that are computed for groups: `{total: {$sum: "$price"}}`."""
    if not isinstance(value, Mapping):
        return "its fields are not a document"
    return _first(_check_accumulator(each, known) for each in value.values())


def _check_accumulator(value: object, known: frozenset[str]) -> str:
    if not isinstance(value, Mapping) or len(value) != 1:
        return "a field is not computed by one accumulator"
    name, operand = next(iter(value.items()))
    return check_expression(operand) if name in known else describe_unknown_operator(name)


def check_window_fields(value: object) -> str:
    """Check the output of $setWindowFields: a function, and a window beside it."""
    if not isinstance(value, Mapping):
        return "its output is not a document"
    functions = {
        field: {name: operand for name, operand in each.items() if name != "window"}
        for field, each in value.items()
        if isinstance(each, Mapping)
    }
    if len(functions) != len(value):
        return "a field of its output is not a document"
    return check_accumulators(functions, operators.WINDOW_FUNCTIONS)


Check = Callable[[object], str]

NOTHING_TO_CHECK: Final[Check] = lambda value: ""  # noqa: E731
