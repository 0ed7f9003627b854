"""Values of aggregation expressions.

Conditions inside of an expression count as part of its value, as in SQL: a client could spell a value by hundreds of
them in one answer. Filters of whole documents (`$match`, joins) do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from postern.inspection.lineage.scope import NOTHING, Sources, WorkBudget, union
from postern.protocols.mongodb.dialect import mongodb_operators as operators
from postern.protocols.mongodb.dialect.mongodb_json import is_operator, is_scalar
from postern.protocols.mongodb.lineage.mongodb_value_trees import (
    CONSTANT,
    MISSING,
    UNKNOWN_VALUE,
    BuiltValue,
    ComputedValue,
    DocumentValue,
    LiteralValue,
    are_alike,
    choose,
    depend,
    is_field_name,
    is_scalar_literal,
)

_CURRENT: Final = "CURRENT"


@dataclass(frozen=True, slots=True)
class ExpressionScope:
    """What names mean in an expression: the document, and the variables by their names."""

    root: DocumentValue
    work: WorkBudget
    variables: Mapping[str, DocumentValue]

    def bind(self, variables: Mapping[str, DocumentValue]) -> ExpressionScope:
        return replace(self, variables={**self.variables, **variables})

    def with_root(self, root: DocumentValue) -> ExpressionScope:
        """Return the scope of a later stage. Only there are variables of a command or of $lookup left."""
        return replace(self, root=root)

    def variable(self, name: str) -> DocumentValue:
        value = self.variables.get(name)
        if value is not None:
            return choose([value, self.root]) if name == _CURRENT else value
        if name in ("ROOT", _CURRENT):
            return self.root
        if name in operators.CONSTANT_VARIABLES or name in operators.ACTION_VARIABLES:
            return CONSTANT
        return MISSING if name == "REMOVE" else UNKNOWN_VALUE

    def path(self, path: str) -> DocumentValue:
        """Return what `$a.b` and `$$name.a.b` mean, given without the first sign."""
        if not all(path.split(".")):
            return UNKNOWN_VALUE  # some servers ignore empty names
        if not path.startswith("$"):
            value = self.root.at_path(path)
            current = self.variables.get(_CURRENT)  # some servers ignore that a client binds it
            return value if current is None else choose([current.at_path(path), value])
        name, dot, inner = path[1:].partition(".")
        value = self.variable(name)
        return value.at_path(inner) if dot else value


def value_of(node: object, scope: ExpressionScope) -> DocumentValue:
    """Return the value of an expression."""
    scope.work.step()
    if isinstance(node, str):
        return scope.path(node[1:]) if node.startswith("$") else LiteralValue(node)
    if isinstance(node, list):
        return choose([value_of(each, scope) for each in node]) if node else CONSTANT
    if not isinstance(node, Mapping) or is_scalar(node):
        return LiteralValue(node)
    if not is_operator(node):
        if not all(map(is_field_name, node)):
            return UNKNOWN_VALUE
        return BuiltValue({name: value_of(each, scope) for name, each in node.items()})
    if len(node) != 1:
        return UNKNOWN_VALUE
    name, operand = next(iter(node.items()))
    return operator_value(name, operand, scope)


def operator_value(name: str, operand: object, scope: ExpressionScope) -> DocumentValue:
    if name in operators.LITERALS:
        return UNKNOWN_VALUE if _has_odd_names(operand) else LiteralValue(operand)
    if name in operators.SCALAR_EXPRESSIONS:
        return _compute_scalar(name, operand, scope)
    if name in operators.COMPARISONS:
        return _compare(operand, scope)
    if name in operators.WHOLE_EXPRESSIONS:
        return ComputedValue(_everything_of(_arguments(operand, scope)), is_scalar=True)
    evaluate = _OPERATORS.get(name)
    return UNKNOWN_VALUE if evaluate is None else evaluate(operand, scope)


def _compute_scalar(name: str, operand: object, scope: ExpressionScope) -> DocumentValue:
    """Return a scalar of all arguments. Whether it is null can depend on whether an argument is."""
    values = _arguments(operand, scope)
    sources = union([value.sources for value in values])
    if name in operators.NEVER_NULL:
        return ComputedValue(sources, deciding=NOTHING)
    if _has_fallback(operand):
        return ComputedValue(sources)
    return ComputedValue(sources, deciding=union([value.shape for value in values]))


def _has_fallback(operand: object) -> bool:
    """Return whether something else takes the place of a value that cannot be converted."""
    return isinstance(operand, Mapping) and ("onError" in operand or "onNull" in operand)


def _has_odd_names(value: object) -> bool:
    """Return whether a constant has names that could be taken for paths or operators."""
    if isinstance(value, list):
        return any(map(_has_odd_names, value))
    if not isinstance(value, Mapping) or is_scalar(value):
        return False
    return any("." in name or name.startswith("$") or _has_odd_names(each) for name, each in value.items())


def _operands(operand: object) -> list[object]:
    """Return the arguments of an operator: a list, named ones, or a single one."""
    if isinstance(operand, list):
        return operand
    if isinstance(operand, Mapping) and not is_scalar(operand) and not is_operator(operand):
        return list(operand.values())
    return [operand]


def _arguments(operand: object, scope: ExpressionScope) -> list[DocumentValue]:
    return [value_of(each, scope) for each in _operands(operand)]


def _positional(operand: object, scope: ExpressionScope) -> list[DocumentValue]:
    """Return the arguments of an operator that has no named ones: a document is an argument itself."""
    return [value_of(each, scope) for each in (operand if isinstance(operand, list) else [operand])]


def _everything_of(values: Iterable[DocumentValue]) -> Sources:
    return union([value.everything for value in values])


def _get_argument(operand: object, name: str) -> object:
    return operand.get(name) if isinstance(operand, Mapping) else None


def _argument_value(operand: object, name: str, scope: ExpressionScope) -> DocumentValue:
    given = _get_argument(operand, name)
    return MISSING if given is None else value_of(given, scope)


def _compare(operand: object, scope: ExpressionScope) -> DocumentValue:
    """Comparing with a constant that is no document shows nothing of what is in a document."""
    values = _arguments(operand, scope)
    if isinstance(operand, list) and any(isinstance(each, list) for each in operand):
        values = [value_of(part, scope) for each in operand for part in (each if isinstance(each, list) else [each])]
    return ComputedValue(_find_compared(values), is_scalar=True)


# Choices


def _cond(operand: object, scope: ExpressionScope) -> DocumentValue:
    if isinstance(operand, list):
        if len(operand) != 3:
            return UNKNOWN_VALUE
        condition, then, otherwise = operand
    else:
        condition, then, otherwise = (_get_argument(operand, name) for name in ("if", "then", "else"))
    values = [value_of(then, scope), value_of(otherwise, scope)]
    return depend(choose(values), value_of(condition, scope).everything, is_steady=are_alike(values))


def _if_null(operand: object, scope: ExpressionScope) -> DocumentValue:
    values = _positional(operand, scope)
    deciding = union([value.sources for value in values[:-1]])
    return depend(choose(values), deciding, is_steady=bool(values) and is_scalar_literal(values[-1]))


def _switch(operand: object, scope: ExpressionScope) -> DocumentValue:
    branches = _get_argument(operand, "branches")
    if not isinstance(branches, list) or not all(isinstance(each, Mapping) for each in branches):
        return UNKNOWN_VALUE
    values = [value_of(each.get("then"), scope) for each in branches]
    cases = [value_of(each.get("case"), scope) for each in branches]
    values.append(_argument_value(operand, "default", scope))
    return depend(choose(values), _everything_of(cases), is_steady=are_alike(values))


def _most(operand: object, scope: ExpressionScope) -> DocumentValue:
    """$max and $min of several arguments: which one it is depends on all, and with documents on all that is in them."""
    values = _positional(operand, scope)
    is_steady = not any(isinstance(value, BuiltValue) or not _is_scalar_constant(value) for value in values)
    return depend(choose(values), _find_compared(values), is_steady=is_steady)


def _is_scalar_constant(value: DocumentValue) -> bool:
    return not isinstance(value, LiteralValue) or is_scalar_literal(value)


def _find_compared(values: Sequence[DocumentValue]) -> Sources:
    """Return what comparing values shows: comparing one with constants that are no documents shows nothing in it."""
    if sum(not is_scalar_literal(value) for value in values) <= 1:
        return union([value.sources for value in values])
    return _everything_of(values)


def _most_of_group(operand: object, scope: ExpressionScope) -> DocumentValue:
    """$max and $min of a group, which show an order as $sort does."""
    value = value_of(operand, scope)
    return depend(value, value.everything if isinstance(value, BuiltValue) else value.sources, is_steady=True)


# Documents


def _get_field(operand: object, scope: ExpressionScope) -> DocumentValue:
    document = isinstance(operand, Mapping) and not is_operator(operand) and not is_scalar(operand)
    field = _get_argument(operand, "field") if document else operand
    given = _get_argument(operand, "input") if document else None
    value = scope.variable(_CURRENT) if given is None else value_of(given, scope)
    name = _constant_name(field)
    if name is not None:
        return value.at_path(name)
    named = value_of(field, scope)
    return ComputedValue(union([value.everything, named.everything]), deciding=union([value.shape, named.everything]))


def _constant_name(field: object) -> str | None:
    if isinstance(field, Mapping) and len(field) == 1 and not operators.LITERALS.isdisjoint(field):
        field = next(iter(field.values()))
        return field if isinstance(field, str) else None
    return field if isinstance(field, str) and not field.startswith("$") else None


def _set_field(operand: object, scope: ExpressionScope) -> DocumentValue:
    name = _constant_name(_get_argument(operand, "field"))
    document = _argument_value(operand, "input", scope)
    value = _argument_value(operand, "value", scope)
    if name is None or "." in name or name.startswith("$"):
        named = value_of(_get_argument(operand, "field"), scope)
        deciding = union([document.shape, value.shape, named.everything])
        return ComputedValue(_everything_of([document, value, named]), deciding=deciding)
    return BuiltValue({name: value}, document)


def _unset_field(operand: object, scope: ExpressionScope) -> DocumentValue:
    name = _constant_name(_get_argument(operand, "field"))
    document = _argument_value(operand, "input", scope)
    if name is None:
        return depend(document, value_of(_get_argument(operand, "field"), scope).everything)
    return document if "." in name or name.startswith("$") else BuiltValue({name: MISSING}, document)


def _object_to_array(operand: object, scope: ExpressionScope) -> DocumentValue:
    (value,) = _positional(operand, scope)[:1] or [UNKNOWN_VALUE]
    names = ComputedValue(value.names, is_scalar=True)
    return BuiltValue({"k": names, "v": ComputedValue(value.everything, deciding=value.shape)})


def _all_of(operand: object, scope: ExpressionScope) -> DocumentValue:
    return choose(_positional(operand, scope))


def _compute(operand: object, scope: ExpressionScope) -> DocumentValue:
    """A document or an array that is made of all arguments."""
    return ComputedValue(_everything_of(_arguments(operand, scope)))


# Arrays


def _element(operand: object, scope: ExpressionScope) -> DocumentValue:
    """Elements of the first argument, chosen by the others."""
    values = _positional(operand, scope)
    if not values:
        return UNKNOWN_VALUE
    return depend(values[0], union([value.sources for value in values[1:]]))


def _only_argument(operand: object, scope: ExpressionScope) -> DocumentValue:
    if isinstance(operand, list) and len(operand) == 1:
        operand = operand[0]
    return value_of(operand, scope)


def _first_n(operand: object, scope: ExpressionScope) -> DocumentValue:
    number = _argument_value(operand, "n", scope)
    return depend(_argument_value(operand, "input", scope), number.sources)


def _most_n(operand: object, scope: ExpressionScope) -> DocumentValue:
    value = _argument_value(operand, "input", scope)
    chosen = depend(value, value.everything if isinstance(value, BuiltValue) else value.sources, is_steady=True)
    return depend(chosen, _argument_value(operand, "n", scope).sources)


def _sort_array(operand: object, scope: ExpressionScope) -> DocumentValue:
    return _argument_value(operand, "input", scope)


def _map(operand: object, scope: ExpressionScope) -> DocumentValue:
    value = _argument_value(operand, "input", scope)
    inner = scope.bind({_variable_name(operand, "this"): value})
    return depend(value_of(_get_argument(operand, "in"), inner), value.shape)


def _filter(operand: object, scope: ExpressionScope) -> DocumentValue:
    value = _argument_value(operand, "input", scope)
    inner = scope.bind({_variable_name(operand, "this"): value})
    condition = value_of(_get_argument(operand, "cond"), inner).everything
    return depend(value, union([condition, _argument_value(operand, "limit", scope).sources]))


def _variable_name(operand: object, otherwise: str) -> str:
    name = _get_argument(operand, "as")
    return name if isinstance(name, str) else otherwise


def _reduce(operand: object, scope: ExpressionScope) -> DocumentValue:
    value = _argument_value(operand, "input", scope)
    first = _argument_value(operand, "initialValue", scope)
    before = ComputedValue(first.everything)
    after = value_of(_get_argument(operand, "in"), scope.bind({"this": value, "value": before}))
    return ComputedValue(union([first.everything, after.everything, value.shape]))


def _zip(operand: object, scope: ExpressionScope) -> DocumentValue:
    return choose([_argument_value(operand, "inputs", scope), _argument_value(operand, "defaults", scope)])


def _set_operation(operand: object, scope: ExpressionScope) -> DocumentValue:
    values = _positional(operand, scope)
    return depend(choose(values), _everything_of(values))


def _scalar_array(operand: object, scope: ExpressionScope) -> DocumentValue:
    """An array or a document that depends on its arguments: $range, $split, $regexFind."""
    return ComputedValue(union([value.sources for value in _arguments(operand, scope)]))


# The rest


def _let(operand: object, scope: ExpressionScope) -> DocumentValue:
    variables = _get_argument(operand, "vars")
    if not isinstance(variables, Mapping):
        return UNKNOWN_VALUE
    return value_of(
        _get_argument(operand, "in"), scope.bind({name: value_of(each, scope) for name, each in variables.items()})
    )


def _convert(operand: object, scope: ExpressionScope) -> DocumentValue:
    value = _argument_value(operand, "input", scope)
    others = [_argument_value(operand, name, scope) for name in ("onError", "onNull", "to", "format", "byteOrder")]
    sources = union([value.sources, _everything_of(others)])
    if _has_fallback(operand) or not all(map(is_scalar_literal, others)):
        return ComputedValue(sources)  # which of them it is shows something
    return ComputedValue(sources, deciding=value.shape)


def _percentile(operand: object, scope: ExpressionScope) -> DocumentValue:
    return ComputedValue(union([value.sources for value in _arguments(operand, scope)]), deciding=NOTHING)


# What $meta shows besides numbers that do not depend on single fields.
_SCORES: Final = frozenset(
    {"textScore", "searchScore", "vectorSearchScore", "searchSequenceToken", "recordId", "randVal", "score"}
)


def _meta(operand: object, scope: ExpressionScope) -> DocumentValue:
    return CONSTANT if operand in _SCORES else ComputedValue(scope.root.everything)


_Evaluate = Callable[[object, ExpressionScope], DocumentValue]

_OPERATORS: Final[Mapping[str, _Evaluate]] = {
    "$arrayElemAt": _element,
    "$arrayToObject": _compute,
    "$concatArrays": _all_of,
    "$cond": _cond,
    "$convert": _convert,
    "$dateToParts": _scalar_array,
    "$filter": _filter,
    "$first": _only_argument,
    "$firstN": _first_n,
    "$getField": _get_field,
    "$ifNull": _if_null,
    "$last": _only_argument,
    "$lastN": _first_n,
    "$let": _let,
    "$map": _map,
    "$max": _most,
    "$maxN": _most_n,
    "$mergeObjects": _all_of,
    "$meta": _meta,
    "$min": _most,
    "$minN": _most_n,
    "$objectToArray": _object_to_array,
    "$percentile": _percentile,
    "$range": _scalar_array,
    "$reduce": _reduce,
    "$regexFind": _scalar_array,
    "$regexFindAll": _scalar_array,
    "$reverseArray": _only_argument,
    "$setDifference": _set_operation,
    "$setField": _set_field,
    "$setIntersection": _set_operation,
    "$setUnion": _set_operation,
    "$slice": _element,
    "$sortArray": _sort_array,
    "$split": _scalar_array,
    "$switch": _switch,
    "$unsetField": _unset_field,
    "$zip": _zip,
}


# Accumulators


def accumulate(name: str, operand: object, scope: ExpressionScope) -> DocumentValue:
    """Return the value of an accumulator over the documents of a group."""
    if name in ("$count", "$rank", "$denseRank", "$documentNumber"):
        return ComputedValue(NOTHING, is_scalar=True)
    if name in ("$push", "$addToSet", "$first", "$last", "$locf", "$mergeObjects", "$concatArrays", "$setUnion"):
        return value_of(operand, scope)
    if name in ("$max", "$min"):
        return _most_of_group(operand, scope)
    if name in ("$top", "$topN", "$bottom", "$bottomN"):
        number = _argument_value(operand, "n", scope)
        return depend(_argument_value(operand, "output", scope), number.sources)
    if name in ("$linearFill", "$covariancePop", "$covarianceSamp", "$derivative", "$integral", "$expMovingAvg"):
        return ComputedValue(_everything_of(_arguments(operand, scope)), is_scalar=True)
    if name == "$shift":
        return choose([_argument_value(operand, "output", scope), _argument_value(operand, "default", scope)])
    return operator_value(name, operand, scope) if name in operators.ACCUMULATORS else UNKNOWN_VALUE
