"""Binding of a script's parameters: by the database's own protocol where it can, else as quoted literals."""

from __future__ import annotations

from postern.domain.sessions.script_parameters import (
    MAX_BOUND_SCRIPT,
    BoundScript,
    Edit,
    Parameters,
    ParameterValue,
    Placeholder,
    check_parameters,
    text_of,
)
from postern.domain.targets.connection import Connection
from postern.errors import Invalid
from postern.protocols.registry import PROTOCOLS
from postern.protocols.spec import ScriptSyntax
from postern.runbooks.script_placeholders import NamedPlace, find_placeholders, write_text_literal
from postern.runbooks.template_errors import Fault, position_of


def bind(script: str, parameters: Parameters, connection: Connection) -> BoundScript:
    """Return the script with its values. Without parameters it is what it is: colons mean nothing then.

    Takes up to a tenth of a second for a long script. Raises Invalid for a parameter without a placeholder or the
    reverse, for connections that have none, and where it is uncertain what is code.
    """
    if not parameters:
        return BoundScript(script)
    check_parameters(parameters)
    spec = PROTOCOLS.get(connection.protocol)
    if spec is None or not (spec.syntax.is_sql or spec.bound_script is not None):
        raise _invalid(
            f"connection {connection.name!r} has no placeholders, only databases have; use client_args or env_vars "
            "for commands"
        )
    if len(script) > MAX_BOUND_SCRIPT:
        raise Invalid(f"script: at most {MAX_BOUND_SCRIPT:,} characters with parameters", field="script")
    places = _find(script, spec.syntax)
    _require_matches(places, parameters)
    if spec.bound_script is not None:
        return BoundScript(script, tuple(_placeholder(place, parameters[place.name]) for place in places))
    return _write_literals(script, places, parameters, spec.syntax)


def _placeholder(place: NamedPlace, value: ParameterValue) -> Placeholder:
    return Placeholder(place.start, place.end, place.name, text_of(value), value)


def _find(script: str, syntax: ScriptSyntax) -> list[NamedPlace]:
    try:
        return find_placeholders(script, syntax)
    except Fault as fault:
        where = "" if fault.at is None else "line {}, column {}: ".format(*position_of(script, fault.at))
        raise Invalid(f"script: {where}{fault.message}", field="script") from None


def _require_matches(places: list[NamedPlace], parameters: Parameters) -> None:
    names = dict.fromkeys(place.name for place in places)
    missing = [f":{name}" for name in names if name not in parameters]
    if missing:
        raise _invalid(f"the script uses {', '.join(missing)} without a value; add it to the parameters")
    surplus = [repr(name) for name in parameters if name not in names]
    if surplus:
        raise _invalid(
            f"the script does not use {', '.join(surplus)}; write it as :NAME outside of quotes and comments, or "
            "remove it from the parameters"
        )


def _write_literals(script: str, places: list[NamedPlace], parameters: Parameters, syntax: ScriptSyntax) -> BoundScript:
    literals = {name: _literal(name, value, syntax) for name, value in parameters.items()}
    parts: list[str] = []
    edits: list[Edit] = []
    at = 0
    for place in places:
        literal = literals[place.name]
        parts += (script[at : place.start], literal)
        edits.append(Edit(place.start, place.end, len(literal)))
        at = place.end
    return BoundScript("".join((*parts, script[at:])), edits=tuple(edits))


def _literal(name: str, value: ParameterValue, syntax: ScriptSyntax) -> str:
    text = text_of(value)
    if text is None:
        return "NULL"
    if not isinstance(value, str):
        return f"({text})" if text.startswith("-") else text
    try:
        return write_text_literal(text, syntax)
    except Fault:
        raise _invalid(
            f"the value of {name!r} has control characters, which a literal of this database cannot have"
        ) from None


def _invalid(message: str) -> Invalid:
    return Invalid(f"parameters: {message}", field="parameters")
