"""Placeholders `:name` in the code of a script.

The scanner of runbooks tells code from texts and comments, where a colon means nothing. In code, a colon that follows a
name, a number, a bracket or a quote belongs to an array slice (`a[1:n]`), and of two colons neither begins a name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.quoting import quote_value
from postern.runbooks.scanners import ScannerState, Sql
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault

MAX_PLACEHOLDERS = 10_000

_LOST = (
    "it cannot be scanned for placeholders, because it has a command of the database client or COPY … FROM STDIN; "
    "remove that, or run it without parameters"
)
_CANDIDATE = re.compile(r"""(?<![:\w\])}'"`$]):([^\W\d]\w*)""")


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A placeholder without its value."""

    start: int
    end: int
    name: str


def find_placeholders(script: str, syntax: ScriptSyntax) -> list[NamedPlace]:
    """Return the placeholders in order. Raises Fault if it is uncertain what is code, at the place of the doubt."""
    scanner = Sql(syntax, StepBudget())
    places: list[NamedPlace] = []
    at = 0
    for match in _CANDIDATE.finditer(script):
        start, end = match.span()
        scanner.read(script[at:start])
        at = start
        if scanner.is_lost or scanner.is_command:
            raise Fault(_LOST, start)
        if scanner.state is not ScannerState.CODE or scanner.is_within_tags:
            continue
        if scanner.is_conditional:
            raise Fault("a placeholder in a comment that some servers run is not possible; move it out", start)
        if script[end : end + 1] in ("'", '"', "`"):
            raise Fault("a quote follows the placeholder; put a blank between them", start)
        places.append(NamedPlace(start, end, match[1]))
        if len(places) > MAX_PLACEHOLDERS:
            raise Fault(f"it has more than {MAX_PLACEHOLDERS:,} placeholders", start)
        scanner.read("1")  # stands for the value: its name must not look like the prefix of a literal
        at = end
    scanner.read(script[at:])
    if scanner.is_lost:
        raise Fault(_LOST)
    if not scanner.is_whole():
        raise Fault("a quote or a comment is not closed, so it is uncertain what is code")
    return places


def write_text_literal(text: str, syntax: ScriptSyntax) -> str:
    """Return a text as a literal. Raises Fault if it cannot be written."""
    return quote_value(syntax, "'", text)
