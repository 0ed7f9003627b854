"""Statements without a table: DECLARE, SET, USE, conditions, and those that write messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from postern.inspection.lineage.scope import NOTHING, union
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at, split_at_commas, word
from postern.protocols.mssql.dialect.tsql_texts import assigned_variables, is_user_variable, variable_name
from postern.protocols.mssql.lineage.tsql_cursor_statements import read_cursor
from postern.protocols.mssql.lineage.tsql_reading import TsqlReading

_ONE: Final = SqlToken(SqlTokenKind.NUMBER, "1")


def read_condition(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    """Analyse IF and WHILE. Conditions matter in loops only, in which they can be asked thousands of times."""
    case = [word("CASE"), word("WHEN"), *tokens[1:], word("THEN"), _ONE, word("END")]
    sources = reading.value(case)
    if reading.loops:
        reading.control = union([reading.control, sources])


def read_message(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    """Analyse PRINT, RAISERROR, RETURN and THROW, whose values are no rows. Later, ERROR_NUMBER() may be one."""
    if union([reading.argument([token]) for token in tokens]) != NOTHING:
        reading.memory.change(queried=True)
    for token in assigned_variables(tokens):
        reading.variables.assign(variable_name(token), None)


def read_declaration(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    if key_at(tokens, 2) == "CURSOR" or "CURSOR" in [token.key for token in tokens[:6]]:
        read_cursor(reading, tokens[1], tokens)
        return
    for part in split_at_commas(tokens[1:]):
        if not part or not is_user_variable(part[0]):
            raise UnreadableSql("it declares something that is not a variable")
        place = 1 + (key_at(part, 1) == "AS")
        if key_at(part, place) == "TABLE":
            columns = reading.definitions.columns_of(part[place + 1 :])
            reading.memory.temps.setdefault(variable_name(part[0]), columns)
            continue
        equals = next((at for at, token in enumerate(part) if token.key == "="), len(part))
        if equals < len(part):
            _assign(reading, part[0], part[equals + 1 :])


def _assign(reading: TsqlReading, variable: SqlToken, value: Sequence[SqlToken]) -> None:
    reading.assign(variable, reading.value(value))


def read_setting(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    """Analyse SET of a variable, or of a setting of the session."""
    if len(tokens) > 2 and is_user_variable(tokens[1]):
        if key_at(tokens, 3) == "CURSOR":
            read_cursor(reading, tokens[1], tokens)
        elif key_at(tokens, 2) == ".":
            reading.variables.assign(variable_name(tokens[1]), None)  # a method that changes an XML value
        else:
            _assign(reading, tokens[1], tokens[3:])
        return
    setting = tokens[1].text.upper() if len(tokens) > 1 else ""
    if setting == "IDENTITY_INSERT":
        reading.memory.change(numbered=True)
    is_off = tokens[-1].key == "OFF"  # as tools begin
    if not is_off and (setting.startswith("SHOWPLAN") or {token.key for token in tokens} & {"XML", "PROFILE"}):
        reading.memory.change(planned=True)
    # A value from a query, or columns that answers have beside those of the text.
    has_query = setting == "NO_BROWSETABLE" or any(token.key == "(" for token in tokens)
    if has_query or union([reading.argument([token]) for token in tokens]) != NOTHING:
        reading.memory.change(queried=True)


def read_use(reading: TsqlReading, tokens: list[SqlToken]) -> None:
    if len(tokens) != 2 or not tokens[1].text or not reading.is_own_database(tokens[1].text):
        reading.memory.change(elsewhere=True)
