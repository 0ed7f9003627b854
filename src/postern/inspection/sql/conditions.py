"""Whether a condition of an UPDATE or a DELETE holds for every row, as far as its text tells.

A value that is the same for every row, but cannot be computed here, can be true or false. For each part, the reader
therefore asks whether it can have the value that the whole needs; `not` asks for the opposite.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from sqlglot import exp

_EQUAL = (exp.EQ, exp.GTE, exp.LTE, exp.NullSafeEQ, exp.Like, exp.ILike, exp.Is)
_UNEQUAL = (exp.NEQ, exp.GT, exp.LT)
# Functions that some dialects call without parentheses, and that this parser takes for columns.
_CALLED = frozenset(
    ["CURRENT_ROLE", "LOCALTIMESTAMP", "SYSDATE", "SYSTIMESTAMP", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP"]
)


def always_true(condition: exp.Expr) -> bool:
    return _Reader().can_be(True, condition)


def looks_at_no_row(condition: exp.Expr) -> bool:
    return all(_is_called(column) for column in condition.find_all(exp.Column))


def _is_called(column: exp.Column) -> bool:
    name = column.this
    return not column.table and isinstance(name, exp.Identifier) and not name.quoted and name.this.upper() in _CALLED


class _Reader:
    """Reader of one condition. Each part is evaluated once for each value, however often its surroundings ask."""

    def __init__(self) -> None:
        self._said: dict[tuple[bool, int], bool] = {}

    def can_be(self, value: bool, node: exp.Expr) -> bool:
        """Return whether it can have this value for every row, whatever is in the row."""
        result = self._said.get((value, id(node)))
        if result is None:
            result = self._said[value, id(node)] = self._can_be(value, node)
        return result

    def _can_be(self, value: bool, node: exp.Expr) -> bool:
        if isinstance(node, exp.Paren):
            return self.can_be(value, node.this)
        if isinstance(node, exp.Not):
            return self.can_be(not value, node.this)
        if isinstance(node, exp.And | exp.Or):
            return self._evaluate_connector(value, node)
        if isinstance(node, exp.Xor):
            return all(self.can_be(True, part) or self.can_be(False, part) for part in node.flatten())
        if isinstance(node, exp.Boolean):
            return bool(node.this) is value
        if isinstance(node, exp.Null):
            return not value
        if isinstance(node, exp.Literal):
            return (_number(node) != 0) is value
        if isinstance(node, exp.Binary) and not isinstance(node, exp.Dot):
            return _compare(value, node)
        if isinstance(node, exp.In) and any(each == node.this for each in node.expressions):
            return value
        if isinstance(node, exp.Between) and node.this == node.args.get("low") == node.args.get("high"):
            return value
        return looks_at_no_row(node)

    def _evaluate_connector(self, value: bool, node: exp.Connector) -> bool:
        parts = list(node.flatten())
        each = partial(self.can_be, value)
        if isinstance(node, exp.And) is value:
            return all(map(each, parts))
        if any(map(each, parts)):
            return True
        plain = [part.unnest() for part in parts]
        negated = [part.this.unnest() for part in plain if isinstance(part, exp.Not)]
        # x or not x; and not (x and not x)
        return bool(negated) and not set(plain).isdisjoint(negated)


def _compare(value: bool, node: exp.Binary) -> bool:
    left, right = node.this, node.expression
    if not isinstance(left, exp.Expr) or not isinstance(right, exp.Expr):
        return False
    if left.unnest() == right.unnest() and isinstance(node, _EQUAL + _UNEQUAL):
        return isinstance(node, _EQUAL) is value
    if isinstance(node, exp.Like | exp.ILike) and right.is_string:
        return value if set(right.name) == {"%"} else left.find(exp.Column) is None
    if not looks_at_no_row(node):
        return False
    first, second = _number(left), _number(right)
    if first is None or second is None:
        return not _unequal_strings(node, left, right) or not value
    compare = _COMPARE.get(type(node))
    return compare is None or compare(first, second) is value


def _unequal_strings(node: exp.Binary, left: exp.Expr, right: exp.Expr) -> bool:
    both = left.is_string and right.is_string
    return both and isinstance(node, exp.EQ) and left.name.strip().lower() != right.name.strip().lower()


_COMPARE: dict[type[exp.Expr], Callable[[float, float], bool]] = {
    exp.EQ: lambda a, b: a == b,
    exp.NEQ: lambda a, b: a != b,
    exp.GT: lambda a, b: a > b,
    exp.GTE: lambda a, b: a >= b,
    exp.LT: lambda a, b: a < b,
    exp.LTE: lambda a, b: a <= b,
}


def _number(node: exp.Expr) -> float | None:
    if not isinstance(node, exp.Literal) or node.is_string:
        return None
    try:
        return float(node.this)
    except ValueError:
        return None
