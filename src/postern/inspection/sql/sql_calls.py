"""Function calls of a statement, found in its tokens: a name before a parenthesis that is nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from postern.domain.rules.statement import Effect, ObjectKind, ObjectName
from postern.domain.targets.target_schema import TargetSchema
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, brackets, key_at, words_of


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions of one dialect, in upper case.

    - `harmless`: they only compute from their arguments, or return public facts.
    - `effects`: functions with effects.
    - `keywords`: words before a parenthesis that are not functions.
    - `soft`: keywords only after one of these words ("" for a string).
    - `packages`: the effect of calling anything in a package.
    """

    harmless: frozenset[str]
    effects: Mapping[str, frozenset[Effect]]
    keywords: frozenset[str]
    soft: Mapping[str, frozenset[str]] = field(default_factory=dict)
    packages: Mapping[str, frozenset[Effect]] = field(default_factory=dict)


BEHIND_NAME = "name"  # in `soft`: after any name
_COMPARISONS = frozenset({"=", "<", ">", "<=", ">=", "<>", "!=", "<=>", "^="})
COMPARED = {"ANY": _COMPARISONS, "SOME": _COMPARISONS}


@dataclass
class CallEffects:
    effects: set[Effect] = field(default_factory=set)
    objects: set[ObjectName] = field(default_factory=set)
    reason: str = ""


def calls_in(tokens: Sequence[SqlToken], functions: Functions, schema: TargetSchema | None) -> CallEffects:
    calls = CallEffects()
    for parts, quoted in _called_names(tokens, functions):
        name, qualifier = parts[-1], parts[-2] if len(parts) > 1 else ""
        calls.objects.add(ObjectName(ObjectKind.FUNCTION, name.lower(), qualifier.lower()))
        effects = _effects_of(parts, quoted, functions, schema)
        calls.effects |= effects
        if Effect.UNKNOWN in effects:
            calls.reason = calls.reason or f"it calls {'.'.join(parts)}, whose effect is unknown"
    return calls


def _effects_of(
    parts: tuple[str, ...], quoted: bool, functions: Functions, schema: TargetSchema | None
) -> frozenset[Effect]:
    name = parts[-1].upper()
    if len(parts) == 1:
        if name in functions.effects:
            return functions.effects[name]
        if name in functions.harmless and not quoted:
            return frozenset()
    dotted = ".".join(part.upper() for part in parts[-2:])
    for spelling in (dotted, parts[-2].upper() if len(parts) > 1 else name):
        if spelling in functions.packages:
            return functions.packages[spelling]
    if schema is not None and _declared_harmless(parts, schema):
        return frozenset()
    return frozenset({Effect.UNKNOWN})


def _declared_harmless(parts: tuple[str, ...], schema: TargetSchema) -> bool:
    schemas = (parts[-2],) if len(parts) > 1 else schema.search_path
    lower_name = parts[-1].lower()
    for each in schemas:
        matches = [
            function
            for (place, name), function in schema.functions.items()
            if place.lower() == each.lower() and name.lower() == lower_name
        ]
        if matches:
            return all(function.harmless for function in matches)
    return False


_NAMES_FOLLOW = words_of(
    """
    INTO TABLE VIEW REFERENCES INDEX KEY INSERT REPLACE AS CONSTRAINT UNIQUE FULLTEXT SPATIAL OVERWRITE
    """
)


def _called_names(tokens: Sequence[SqlToken], functions: Functions) -> Iterator[tuple[tuple[str, ...], bool]]:
    for start, place in called_at(tokens, functions):
        parts = tuple(each.text for each in tokens[start:place] if each.key != ".")
        yield parts, any(each.kind is SqlTokenKind.NAME for each in tokens[start:place])


def called_at(tokens: Sequence[SqlToken], functions: Functions) -> Iterator[tuple[int, int]]:
    """Yield the start of the name and the place of the parenthesis of each call."""
    closed = brackets(tokens)
    for place in range(1, len(tokens)):
        if tokens[place].key != "(" or not tokens[place - 1].is_name:
            continue
        token, start = tokens[place - 1], place - 1
        while start >= 2 and tokens[start - 1].key == "." and tokens[start - 2].is_name:
            start -= 2
        if start == 0 or (start == place - 1 and _is_keyword(token, tokens[start - 1], functions)):
            continue
        if _names_no_function(tokens, start, closed.get(place, len(tokens))):
            continue
        yield start, place


def _is_keyword(token: SqlToken, before: SqlToken, functions: Functions) -> bool:
    if token.kind is not SqlTokenKind.WORD:
        return False
    soft = functions.soft.get(token.key, frozenset())
    if BEHIND_NAME in soft and before.is_name and before.key not in functions.keywords:
        return True
    return token.key in functions.keywords or (
        before.key in soft and (before.key != "" or before.kind is SqlTokenKind.STRING)
    )


def _names_no_function(tokens: Sequence[SqlToken], start: int, close: int) -> bool:
    """Return whether this is not a call. `close` is the place of the closing parenthesis."""
    before = key_at(tokens, start - 1)
    if before in _NAMES_FOLLOW:
        return True
    if before == ")" and start > 0:
        return True  # `(...) name (columns)`
    return key_at(tokens, close + 1) == "AS" and key_at(tokens, close + 2) == "("  # a CTE's columns
