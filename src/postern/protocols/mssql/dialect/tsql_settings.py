"""The SET options of a session, read from the batches that may have set them, to repeat them on another connection.

An option is known if a batch sets it before anything else: whatever comes first could end the batch.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from postern.domain.rules.row_count import Uncountable
from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, UnreadableSql, key_at, split_at_commas, words_of
from postern.protocols.mssql.dialect.tsql_batches import only_batch, statements
from postern.protocols.mssql.dialect.tsql_parser import creates_code

UNKNOWN: Final = "its session has changed settings in a way that cannot be repeated"
_SWITCHES: Final = words_of(
    """
    ANSI_DEFAULTS ANSI_NULLS ANSI_PADDING ANSI_WARNINGS ARITHABORT ARITHIGNORE CONCAT_NULL_YIELDS_NULL
    NUMERIC_ROUNDABORT QUOTED_IDENTIFIER
    """
)
# Options that do not change which rows a condition matches.
_HARMLESS: Final = words_of(
    """
    ANSI_NULL_DFLT_OFF ANSI_NULL_DFLT_ON CONTEXT_INFO CURSOR_CLOSE_ON_COMMIT DEADLOCK_PRIORITY FORCEPLAN IDENTITY_INSERT
    IMPLICIT_TRANSACTIONS LOCK_TIMEOUT NOCOUNT QUERY_GOVERNOR_COST_LIMIT STATISTICS TEXTSIZE TRANSACTION XACT_ABORT
    """
)
# With these, later statements of the session are not run, or not to their end.
_STOPPING: Final = words_of("FMTONLY NOEXEC PARSEONLY SHOWPLAN_ALL SHOWPLAN_TEXT SHOWPLAN_XML")
_FORMATS: Final = words_of("MDY DMY YMD YDM MYD DYM")
_LANGUAGE: Final = re.compile(r"[\w ()-]{1,128}")


def read_settings(texts: Sequence[str]) -> list[str]:
    """Return SET statements that repeat what the texts have set. Raises Uncountable."""
    options: dict[str, str] = {}
    for text in texts:
        try:
            batch = only_batch(text)
        except UnreadableSql:
            raise Uncountable(UNKNOWN) from None
        is_first = True
        for tokens in statements(batch):
            if creates_code(tokens):
                break
            if key_at(tokens, 0) == "SET" and tokens[1:2] and tokens[1].kind is not SqlTokenKind.VARIABLE:
                _read_option(tokens[1:], options, is_first=is_first)
            elif key_at(tokens, 0) != "DECLARE" or "SELECT" in {token.key for token in tokens}:
                is_first = False
    if options.pop("ROWCOUNT", "0") != "0":
        raise Uncountable("SET ROWCOUNT limits the rows of its session's statements")
    return list(options.values())


def _read_option(tokens: Sequence[SqlToken], options: dict[str, str], *, is_first: bool) -> None:
    names = [part[0].key for part in split_at_commas(tokens) if part]
    value = tokens[-1]
    if all(name in _HARMLESS for name in names):
        return
    if all(name in _STOPPING for name in names) and value.key == "OFF":
        return
    if not is_first:
        raise Uncountable(UNKNOWN)
    for name in names:
        if name in _SWITCHES and value.key in ("ON", "OFF") and len(tokens) == 2 * len(names):
            _put(options, name, f"SET {name} {value.key}")
        elif len(tokens) == 2 and name in _VALUES:
            _put(options, name, _VALUES[name](value))
        else:
            raise Uncountable(UNKNOWN)


def _put(options: dict[str, str], name: str, statement: str) -> None:
    """Record a setting as the latest one: SET LANGUAGE also sets the form of dates."""
    options.pop(name, None)
    options[name] = statement


def _language(value: SqlToken) -> str:
    text = _text(value)
    if not _LANGUAGE.fullmatch(text):
        raise Uncountable(UNKNOWN)
    return f"SET LANGUAGE N'{text}'"


def _date_format(value: SqlToken) -> str:
    text = _text(value).upper()
    if text not in _FORMATS:
        raise Uncountable(UNKNOWN)
    return f"SET DATEFORMAT {text}"


def _date_first(value: SqlToken) -> str:
    if value.kind is not SqlTokenKind.NUMBER or value.text not in "1234567":
        raise Uncountable(UNKNOWN)
    return f"SET DATEFIRST {value.text}"


def _row_count(value: SqlToken) -> str:
    if value.kind is not SqlTokenKind.NUMBER:
        raise Uncountable(UNKNOWN)
    return value.text


def _text(value: SqlToken) -> str:
    return (value.content or "") if value.kind is SqlTokenKind.STRING else value.text if value.is_name else ""


_VALUES: Final = {"DATEFIRST": _date_first, "DATEFORMAT": _date_format, "LANGUAGE": _language, "ROWCOUNT": _row_count}
