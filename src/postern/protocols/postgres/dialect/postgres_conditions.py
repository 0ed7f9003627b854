"""Detection of conditions that every row meets: `true`, `1 = 1`, `not false`, `id = id or …`, and any that names no
column."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final

from postern.inspection.sql.postgres.postgres_tree import Message, children, names, node


class _Value(Enum):
    TRUE = "of every row"
    FALSE = "of none"
    SAME = "of every row or of none"
    BY_ROW = "of some rows"


_INVERSE: Final = {_Value.TRUE: _Value.FALSE, _Value.FALSE: _Value.TRUE}
_TRUE_TEXTS: Final = frozenset({"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"})
_FALSE_TEXTS: Final = frozenset({"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"})
_REFLEXIVE: Final = frozenset({"=", ">=", "<=", "~~", "~~*", "~=", "@>", "<@"})
_IRREFLEXIVE: Final = frozenset({"<>", "!=", "<", ">"})
_PLACES: Final = frozenset({"location", "rexpr_list_start", "rexpr_list_end", "list_start", "list_end"})
# Kinds of nodes by which a condition depends on the row.
_OF_ROW: Final = frozenset({"ColumnRef", "CurrentOfExpr"})


def passes_every_row(condition: Message | None) -> bool:
    """Return True if a WHERE's `Node` (None if there is none) does not filter rows.

    A condition that names no column holds for all rows or for none. It counts as one that holds, unless it is plainly
    false.
    """
    if condition is None:
        return True
    return _value(condition) in (_Value.TRUE, _Value.SAME)


def _value(expression: Message) -> _Value:
    kind, content = node(expression)
    if kind == "BoolExpr":
        return _of_bool(content)
    if kind == "A_Expr":
        value = _of_comparison(content)
    elif kind == "TypeCast":
        value = _of_constant(content["arg"]) if _is_bool(content["typeName"]) else None
    elif kind == "A_Const":
        value = _of_constant(expression)
    elif kind == "BooleanTest":
        value = _of_test(content)
    elif kind == "NullTest":
        value = _of_null_test(content)
    elif kind == "SubLink" and content.get("subLinkType") == "EXPR_SUBLINK":
        value = _of_query(content["subselect"])
    elif kind == "CoalesceExpr":
        value = _value(content["args"][0])
        value = value if value in (_Value.TRUE, _Value.FALSE) else None
    else:
        value = None
    if value is not None:
        return value
    return _Value.BY_ROW if _looks_at_row(kind, content) else _Value.SAME


def _of_bool(content: Message) -> _Value:
    arguments = content["args"]
    values = {_value(argument) for argument in arguments}
    operator = content.get("boolop")
    if operator == "NOT_EXPR":
        value = values.pop()
        return _INVERSE.get(value, value)
    if operator == "OR_EXPR":
        if _Value.TRUE in values or _one_is_the_others_opposite(arguments):
            return _Value.TRUE
        return next(value for value in (_Value.SAME, _Value.BY_ROW, _Value.FALSE) if value in values)
    order = (_Value.FALSE, _Value.BY_ROW, _Value.SAME, _Value.TRUE)
    return next(value for value in order if value in values)


def _of_comparison(content: Message) -> _Value | None:
    kind, left, right = content.get("kind"), content.get("lexpr"), content.get("rexpr")
    if left is None or right is None:
        return None
    same = _plain(left) == _plain(right)
    if kind in ("AEXPR_NOT_DISTINCT", "AEXPR_DISTINCT") and same:
        return _Value.TRUE if kind == "AEXPR_NOT_DISTINCT" else _Value.FALSE
    if kind in ("AEXPR_IN", "AEXPR_BETWEEN", "AEXPR_BETWEEN_SYM"):
        equal = [_plain(left) == _plain(item) for item in right.get("List", {}).get("items", ())]
        if names(content.get("name")) == ["="]:
            return _Value.TRUE if any(equal) else None
        return _Value.TRUE if kind != "AEXPR_IN" and equal and all(equal) else None
    if kind in ("AEXPR_LIKE", "AEXPR_ILIKE") and _text(right).strip("%") == "" and _text(right):
        return _Value.TRUE if names(content.get("name")) in (["~~"], ["~~*"]) else _Value.FALSE
    if kind not in ("AEXPR_OP", "AEXPR_LIKE", "AEXPR_ILIKE"):
        return None
    operator = names(content.get("name"))[-1]
    if same:
        return _Value.TRUE if operator in _REFLEXIVE else _Value.FALSE if operator in _IRREFLEXIVE else None
    return _of_literals(operator, _literal(left), _literal(right))


def _of_literals(operator: str, left: Any, right: Any) -> _Value | None:
    if left is None or right is None or type(left) is not type(right):
        return None
    if operator in ("=", "<>", "!="):
        return _Value.TRUE if (left == right) == (operator == "=") else _Value.FALSE
    if type(left) is int and operator in ("<", ">", "<=", ">="):
        smaller = left < right or (left == right and "=" in operator)
        larger = left > right or (left == right and "=" in operator)
        return _Value.TRUE if (smaller if "<" in operator else larger) else _Value.FALSE
    return None


def _of_constant(value: Message) -> _Value | None:
    """Evaluate a constant as a boolean: a literal, or a text or number cast to one."""
    kind, content = node(value)
    if kind == "TypeCast":
        return _of_constant(content["arg"])
    if kind != "A_Const":
        return None
    if content.get("isnull"):
        return _Value.FALSE
    if "boolval" in content:
        return _Value.TRUE if content["boolval"].get("boolval") else _Value.FALSE
    if "ival" in content:
        return _Value.TRUE if content["ival"].get("ival", 0) else _Value.FALSE
    text = content.get("sval", {}).get("sval", "").strip().lower()
    return _Value.TRUE if text in _TRUE_TEXTS else _Value.FALSE if text in _FALSE_TEXTS else None


def _of_test(content: Message) -> _Value | None:
    inner, test = _value(content["arg"]), content.get("booltesttype")
    if inner not in (_Value.TRUE, _Value.FALSE):
        return None
    holds = inner is _Value.TRUE
    # Null counts as false here; `_Value` has no third state.
    if test in (("IS_TRUE", "IS_NOT_FALSE") if holds else ("IS_FALSE", "IS_NOT_TRUE")):
        return _Value.TRUE
    return _Value.FALSE if holds and test != "IS_NOT_UNKNOWN" else None


def _of_null_test(content: Message) -> _Value | None:
    kind, argument = node(content["arg"])
    if kind != "A_Const":
        return None
    is_null = bool(argument.get("isnull"))
    return _Value.TRUE if is_null == (content.get("nulltesttype") == "IS_NULL") else _Value.FALSE


def _of_query(value: Message) -> _Value | None:
    """Evaluate `(select …)` without a table."""
    kind, content = node(value)
    targets = content.get("targetList", ())
    if kind != "SelectStmt" or content.keys() & {"fromClause", "whereClause", "withClause"} or len(targets) != 1:
        return None
    return _value(targets[0]["ResTarget"]["val"])


def _one_is_the_others_opposite(arguments: list[Message]) -> bool:
    plain = [_plain(argument) for argument in arguments]
    for argument in arguments:
        kind, content = node(argument)
        if kind == "BoolExpr" and content.get("boolop") == "NOT_EXPR" and _plain(content["args"][0]) in plain:
            return True
        if kind == "NullTest":
            other = "IS_NOT_NULL" if content.get("nulltesttype") == "IS_NULL" else "IS_NULL"
            if _plain({"NullTest": {**content, "nulltesttype": other}}) in plain:
                return True
    return False


def _looks_at_row(kind: str, content: Message) -> bool:
    waiting = [(kind, content)]
    while waiting:
        kind, content = waiting.pop()
        if kind in _OF_ROW:
            return True
        waiting += [(child_kind, child) for _, child_kind, child in children(kind, content)]
    return False


def _plain(value: Any) -> Any:
    """Return the value without positions in the text, so that equal expressions compare as equal."""
    if type(value) is dict:
        return {name: _plain(child) for name, child in value.items() if name not in _PLACES}
    return [_plain(item) for item in value] if type(value) is list else value


def _literal(value: Message) -> Any:
    kind, content = node(value)
    if kind != "A_Const" or content.get("isnull"):
        return None
    if "ival" in content:
        return content["ival"].get("ival", 0)
    if "boolval" in content:
        return bool(content["boolval"].get("boolval"))
    return content["sval"].get("sval", "") if "sval" in content else None


def _text(value: Message) -> str:
    literal = _literal(value)
    return literal if isinstance(literal, str) else ""


def _is_bool(type_name: Message) -> bool:
    return names(type_name.get("names"))[-1:] == ["bool"]
