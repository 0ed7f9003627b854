"""What is wrong with a runbook, or with what somebody gave it. No message holds a value: it may be a secret."""

from __future__ import annotations

from postern.errors import Invalid


class TemplateError(Invalid):
    """The text of a runbook is not one. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.reason = message
        self.line = line
        self.column = column


class RenderError(TemplateError):
    """A runbook cannot be filled in with these values: `parameters` are those to change, as far as that is known.

    `line` and `column` are 0 where it is about the values alone.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, parameters: tuple[str, ...] = ()) -> None:
        super().__init__(message, line, column)
        if not line:
            self.message = message
            self.args = (message,)
        self.field = "parameters"
        self.parameters = parameters


class Fault(Exception):
    """The same within this room: `at` is an offset in the text, or None while that is not known."""

    def __init__(self, message: str, at: int | None = None, parameters: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.parameters = parameters


def place_of(text: str, at: int) -> tuple[int, int]:
    """Line and column, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
