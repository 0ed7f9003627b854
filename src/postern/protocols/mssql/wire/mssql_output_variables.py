"""Output parameters of a statement: which variable of its text each of them is.

A client gives values by name, or in the order in which another text declares the statement's parameters. That text can
contain comments, quoted names and types of the target, so only plain declarations are read: a place that is taken for
another variable would show a masked value. Anything else makes the variables unknown.
"""

from __future__ import annotations

import re
from typing import Final

from postern.interception.events import Column
from postern.protocols.mssql.wire.mssql_requests import RpcParameter
from postern.protocols.mssql.wire.mssql_response_queue import MssqlPendingResponse, Variables
from postern.protocols.mssql.wire.mssql_types import MssqlType, text_kind_of, uint16

# Positions of columns that are no columns of a table: see `Column`.
VARIABLE: Final = -2  # a variable of the text, by its name without @; any of them if the name is empty
OF_A_PROCEDURE: Final = -3  # what code of the target returns

_TYPE: Final = r"(?:\w+|\[\w+\])(?:\s*\.\s*(?:\w+|\[\w+\]))?(?:\s*\(\s*\w+\s*(?:,\s*\w+\s*)?\))?"
_PARAMETER: Final = re.compile(rf"\s*(@[\w#$][\w@#$]*)\s+{_TYPE}(?:\s+\w+)*\s*(,|$)", re.ASCII)


def declared_names(text: str) -> list[str] | None:
    """Return the names of declared parameters in order, in lower case; None if the text is not plain."""
    names: list[str] = []
    pos = 0
    while pos < len(text):
        match = _PARAMETER.match(text, pos)
        if match is None:
            return None
        names.append(match[1].lower())
        pos = match.end()
        if match[2] and pos == len(text):
            return None
    return names


def output_variables(
    parameters: list[RpcParameter], first: int, declaration: str, *, in_order: bool
) -> Variables | None:
    """Return the variables that output parameters are, of a call whose values begin with parameter `first`. Only
    sp_executesql is known to take values by name: for others they must be `in_order`, whether named or not."""
    values = parameters[first:]
    if not any(parameter.is_output for parameter in values):
        return {}
    declared = declared_names(declaration)
    if declared is None:
        return None
    variables: Variables = {}
    has_names = False
    for at, parameter in enumerate(values):
        name = parameter.name.lower()
        expected = declared[at] if at < len(declared) else ""
        if name:
            has_names = True
        elif not has_names:
            name = expected
        if name not in declared or (in_order and name != expected):
            return None
        if parameter.is_output:
            variables[first + at] = name
    return variables


def output_column(
    response: MssqlPendingResponse, buf: bytes, pos: int, returned: str, kind: MssqlType, wide: bool
) -> Column:
    """Return the column that stands for a RETURNVALUE at `pos`, whose name is `returned`.

    Since TDS 7.2 it has the place of its parameter in the call. Large values come last, whatever their place.
    """
    variables = response.variables
    if variables is None:
        return Column(returned.removeprefix("@"), text_kind_of(kind), position=OF_A_PROCEDURE)
    name = ""
    if wide:
        name = variables.get(int(uint16(buf, pos + 1)), "")
    elif len(variables) == 1:
        (name,) = variables.values()
    if returned and returned.lower() != name:
        name = ""
    return Column(name.removeprefix("@"), text_kind_of(kind), position=VARIABLE)
