"""Placeholders `:name` in the code of a script.

The scanner of runbooks tells code from texts and comments, where a colon means nothing. In code of SQL, a colon that
follows a name, a number, a bracket or a quote belongs to an array slice (`a[1:n]`), and of two colons neither begins a
name. In JavaScript, a placeholder follows what a value follows: a colon, a comma, or an opening bracket.
In HTTP requests it also follows a slash or an equals sign.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from postern.protocols.spec import ScriptSyntax
from postern.runbooks.quoting import quote_value
from postern.runbooks.scanners import ProgramScanner, ScannerState, Sql
from postern.runbooks.step_budget import StepBudget
from postern.runbooks.template_errors import Fault

MAX_PLACEHOLDERS = 10_000

_LOST = (
    "it cannot be scanned for placeholders, because it has a command of the database client or COPY … FROM STDIN; "
    "remove that, or run it without parameters"
)
_NOT_CLOSED = "a quote or a comment is not closed, so it is uncertain what is code"
_CANDIDATE = re.compile(r"""(?<![:\w\])}'"`$]):([^\W\d]\w*)""")
_VALUE = re.compile(r":([^\W\d]\w*)")
_BEFORE_VALUES = (":", ",", "(", "[")


@dataclass(frozen=True, slots=True)
class NamedPlace:
    """A placeholder without its value."""

    start: int
    end: int
    name: str


def find_placeholders(script: str, syntax: ScriptSyntax) -> list[NamedPlace]:
    """Return the placeholders in order. Raises Fault if it is uncertain what is code, at the place of the doubt."""
    if syntax is ScriptSyntax.HTTP:
        return _find_in_requests(script)
    if not syntax.is_sql:
        return _find_in_program(script, syntax)
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
        raise Fault(_NOT_CLOSED)
    return places


def _find_in_program(script: str, syntax: ScriptSyntax) -> list[NamedPlace]:
    scanner = ProgramScanner(syntax, StepBudget())
    places: list[NamedPlace] = []
    at = 0
    for match in _VALUE.finditer(script):
        start, end = match.span()
        scanner.read(script[at:start])
        at = start
        if scanner.state is not ScannerState.CODE or not scanner.code_tail.endswith(_BEFORE_VALUES):
            continue
        places.append(NamedPlace(start, end, match[1]))
        if len(places) > MAX_PLACEHOLDERS:
            raise Fault(f"it has more than {MAX_PLACEHOLDERS:,} placeholders", start)
        scanner.read("1")  # stands for the value
        at = end
    scanner.read(script[at:])
    if not scanner.is_whole():
        raise Fault(_NOT_CLOSED)
    return places


# In requests: a segment of a path, a value of a query or a form, of a header, or in JSON. Between quotes, a colon means
# nothing.
_IN_REQUESTS = re.compile(
    r"""(?m:(?:(?<=[/=])|(?<=^[ \t])|(?<=[:,\[][ \t])|(?<=[:,\[])|(?<=\n))):([A-Za-z_]\w*)(?=[\s/?&;,\]}]|$)"""
)
_JSON_TEXT = re.compile(r'"(?:[^"\\\n]|\\.)*"')


def _find_in_requests(script: str) -> list[NamedPlace]:
    texts = [match.span() for match in _JSON_TEXT.finditer(script)]
    places: list[NamedPlace] = []
    number = 0
    for match in _IN_REQUESTS.finditer(script):
        while number < len(texts) and texts[number][1] <= match.start():
            number += 1
        if number < len(texts) and texts[number][0] < match.start():
            continue
        places.append(NamedPlace(match.start(), match.end(), match[1]))
        if len(places) > MAX_PLACEHOLDERS:
            raise Fault(f"it has more than {MAX_PLACEHOLDERS:,} placeholders", match.start())
    return places


def write_text_literal(text: str, syntax: ScriptSyntax) -> str:
    """Return a text as a literal. Raises Fault if it cannot be written."""
    return quote_value(syntax, "'", text)
