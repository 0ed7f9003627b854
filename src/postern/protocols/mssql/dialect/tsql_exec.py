"""EXEC: what it calls, with which arguments, and where the text is that it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from postern.inspection.sql.sql_tokens import SqlToken, SqlTokenKind, closing, dotted_name, key_at, split_at_commas
from postern.protocols.mssql.dialect.tsql_texts import BatchTexts, Texts, texts_of

# Procedures of the server that run or prepare a text, and the place of the text among their arguments.
TEXT_PROCEDURES: Final = {
    "sp_cursoropen": 1,
    "sp_cursorprepare": 2,
    "sp_cursorprepexec": 3,
    "sp_executesql": 0,
    "sp_prepare": 2,
    "sp_prepexec": 2,
}
# Procedures that run a text which was prepared in the session, by a number that only the server knows.
PREPARED_PROCEDURES: Final = frozenset({"sp_cursorexecute", "sp_execute"})
_TEXT_NAMES: Final = frozenset({"@stmt", "@statement"})
_OWN_SCHEMAS: Final = frozenset({"", "sys", "dbo", "msdb", "master"})


@dataclass(frozen=True, slots=True)
class ExecArgument:
    """An argument of a procedure. `name` has its @, and is empty if the argument has none."""

    name: str
    value: tuple[SqlToken, ...]
    is_output: bool


@dataclass(frozen=True, slots=True)
class ExecCall:
    """A call. `text` is the expression in `EXEC (…)`; otherwise `name` has the parts of a procedure's name, which are
    empty if a variable has the name. `is_elsewhere`: it runs on another server, or as another user. `result` is the
    variable that takes the procedure's return value."""

    text: tuple[SqlToken, ...] | None = None
    name: tuple[str, ...] = ()
    arguments: tuple[ExecArgument, ...] = ()
    is_elsewhere: bool = False
    result: str = ""

    @property
    def database(self) -> str:
        """Return the database in a procedure's name, in which it runs; empty if there is none."""
        return self.name[-3] if len(self.name) > 2 else ""

    @property
    def procedure(self) -> str:
        """Return the name of one of the server's own procedures, in lower case; empty for any other."""
        if not self.name or len(self.name) > 3:
            return ""
        is_own = len(self.name) == 1 or self.name[-2].lower() in _OWN_SCHEMAS
        return self.name[-1].lower() if is_own else ""

    def texts(self, known: BatchTexts) -> Texts:
        """Return the texts that it runs or prepares; None if they are unknown. Only for calls with such a text."""
        if self.text is not None:
            return texts_of(self.text, known.of_variable)
        place = TEXT_PROCEDURES[self.procedure]
        if place >= len(self.arguments):
            return None
        argument = self.arguments[place]
        if any(each.name for each in self.arguments[:place]) or not (not argument.name or argument.name in _TEXT_NAMES):
            return None
        if len(argument.value) == 1 and argument.value[0].is_name:
            return (argument.value[0].text,)  # a name stands for a string
        return texts_of(argument.value, known.of_variable)

    @property
    def runs_text(self) -> bool:
        return self.text is not None or self.procedure in TEXT_PROCEDURES


def parse_exec(tokens: Sequence[SqlToken]) -> ExecCall:
    """Return the call of a statement that starts with EXEC, or with the name of a procedure."""
    place = 1 if key_at(tokens, 0) in ("EXEC", "EXECUTE") else 0
    result = ""
    if key_at(tokens, place + 1) == "=" and tokens[place].kind is SqlTokenKind.VARIABLE:
        result = tokens[place].text
        place += 2
    if key_at(tokens, place) == "(":
        close = closing(tokens, place)
        text = tuple(tokens[place + 1 : close])
        return ExecCall(text, is_elsewhere=close != len(tokens) - 1 or len(split_at_commas(text)) != 1, result=result)
    name, end = dotted_name(tokens, place)
    arguments = tuple([_argument(part) for part in split_at_commas(_without_options(tokens[end:])) if part])
    return ExecCall(None, name, arguments, len(name) > 3, result)


def _without_options(tokens: Sequence[SqlToken]) -> Sequence[SqlToken]:
    """Remove WITH RECOMPILE and WITH RESULT SETS."""
    end = next((at for at, token in enumerate(tokens) if token.key == "WITH"), len(tokens))
    return tokens[:end]


def _argument(tokens: Sequence[SqlToken]) -> ExecArgument:
    name = ""
    if tokens[0].kind is SqlTokenKind.VARIABLE and key_at(tokens, 1) == "=":
        name, tokens = tokens[0].text.lower(), tokens[2:]
    is_output = bool(tokens) and tokens[-1].key in ("OUT", "OUTPUT")
    return ExecArgument(name, tuple(tokens[:-1] if is_output else tokens), is_output)
