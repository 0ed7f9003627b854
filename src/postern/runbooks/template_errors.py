"""Errors in runbooks and in their inputs. No message contains a value, because it can be a secret."""

from __future__ import annotations

from postern.errors import Invalid


class TemplateError(Invalid):
    """Syntax error in a runbook. `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {message}")
        self.reason = message
        self.line = line
        self.column = column


class RenderError(TemplateError):
    """A runbook cannot be rendered with these values. `parameters` are those to change, as far as known.

    `line` and `column` are 0 if the error is only about the values.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0, parameters: tuple[str, ...] = ()) -> None:
        super().__init__(message, line, column)
        if not line:
            self.message = message
            self.args = (message,)
        self.field = "parameters"
        self.parameters = parameters


class Fault(Exception):
    """Internal form of these errors. `at` is an offset in the text, or None while unknown."""

    def __init__(self, message: str, at: int | None = None, parameters: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.at = at
        self.parameters = parameters


def position_of(text: str, at: int) -> tuple[int, int]:
    """Return line and column, from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
