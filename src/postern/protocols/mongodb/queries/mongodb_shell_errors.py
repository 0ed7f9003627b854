"""Errors in scripts, and the limits of scripts."""

from __future__ import annotations

_MAX_MESSAGE = 1000  # characters: a name in a script can have as many as the script
MAX_DEPTH = 100  # levels of documents, as the database itself allows

SUPPORTED = (
    "a script consists of `use NAME`, `show …`, `db.COLLECTION.METHOD(…)`, `db.METHOD(…)` and commands in Extended "
    "JSON, with literals as arguments"
)


class ShellError(Exception):
    """A script cannot be read. `offset` counts characters from 0."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message if len(message) <= _MAX_MESSAGE else message[:_MAX_MESSAGE] + "…"
        self.offset = offset

    def describe_place(self, text: str) -> str:
        """Return the message with line and column, from 1."""
        line = text.count("\n", 0, self.offset) + 1
        column = self.offset - text.rfind("\n", 0, self.offset)
        return f"line {line}, column {column}: {self.message}"
