"""Whether a condition of an UPDATE or a DELETE holds for every row, as far as its text tells."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

_EQUAL = (exp.EQ, exp.GTE, exp.LTE, exp.NullSafeEQ, exp.Like, exp.ILike)


def always_true(condition: exp.Expr) -> bool:
    return _truth(condition) is True


def looks_at_no_row(condition: exp.Expr) -> bool:
    return condition.find(exp.Column) is None


def _truth(node: exp.Expr) -> bool | None:
    """None: it depends on the row. What looks at no row and cannot be worked out here counts as true."""
    if isinstance(node, exp.Paren):
        return _truth(node.this)
    if isinstance(node, exp.And | exp.Or | exp.Xor):
        return _joined(node)
    if isinstance(node, exp.Not):
        inner = _truth(node.this)
        return None if inner is None else not inner
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Null):
        return False
    if isinstance(node, exp.Literal):
        return _number(node) != 0
    if isinstance(node, exp.Binary) and not isinstance(node, exp.Dot):
        return _compared(node)
    if isinstance(node, exp.In) and any(each == node.this for each in node.expressions):
        return True
    return True if looks_at_no_row(node) else None


def _joined(node: exp.Connector) -> bool | None:
    parts = list(node.flatten())
    found = [_truth(part) for part in parts]
    if isinstance(node, exp.And):
        return False if False in found else True if all(found) else None
    if isinstance(node, exp.Xor):
        return None if None in found else sum(map(bool, found)) % 2 == 1
    if True in found:
        return True
    plain = [part.unnest() for part in parts]
    if any(isinstance(part, exp.Not) and part.this.unnest() in plain for part in plain):
        return True  # x or not x
    return None if None in found else False


def _compared(node: exp.Binary) -> bool | None:
    left, right = node.this, node.expression
    if not isinstance(left, exp.Expr) or not isinstance(right, exp.Expr):
        return None
    if isinstance(node, _EQUAL) and left.unnest() == right.unnest():
        return True
    if isinstance(node, exp.Like | exp.ILike) and right.is_string:
        return True if set(right.name) == {"%"} else None if left.find(exp.Column) else True
    if not looks_at_no_row(node):
        return None
    first, second = _number(left), _number(right)
    if first is None or second is None:
        return _unequal_strings(node, left, right)
    compare = _COMPARE.get(type(node))
    return compare(first, second) if compare else True


def _unequal_strings(node: exp.Binary, left: exp.Expr, right: exp.Expr) -> bool:
    both = left.is_string and right.is_string
    return not (both and isinstance(node, exp.EQ) and left.name.strip().lower() != right.name.strip().lower())


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
