"""Words of command lines, as a POSIX shell reads them, with their places. Nothing is expanded or run.

A statement ends with its line. A backslash at the end of a line, and quotes, continue it. Whatever a shell would do
besides (pipes, redirections, variables in braces, substitutions) is refused, so that nothing means something else here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_SKIPPED: Final = re.compile(r"(?:[ \t\r]|\\\r?\n|\#[^\n]*)*")
_BETWEEN: Final = re.compile(r"(?:[ \t\r\n;]|\\\r?\n|\#[^\n]*)*")
_BARE: Final = re.compile(r"[^\s\"'\\;|&<>()`$]+|\$(?![({A-Za-z_])")
_SINGLE: Final = re.compile(r"'([^']*)'")
_DOUBLE: Final = re.compile(r'"((?:[^"\\`]|\\.)*)"', re.DOTALL)
_ESCAPED: Final = re.compile(r"\\([\"\\`$])|\\\r?\n")
_SUBSTITUTION: Final = re.compile(r"(?<!\\)\$[({]")


class AwsCommandError(ValueError):
    """A script that cannot be read. `offset` is where, in characters."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.message = message
        self.offset = offset

    def describe_place(self, text: str) -> str:
        line = text.count("\n", 0, self.offset) + 1
        column = self.offset - (text.rfind("\n", 0, self.offset) + 1) + 1
        return f"line {line}, column {column}: {self.message}"


@dataclass(frozen=True, slots=True)
class CommandWord:
    """A word without its quotes. One that begins with a quote is no option, whatever is in it."""

    text: str
    start: int
    end: int
    is_quoted: bool = False


class WordReader:
    """Reads the words of a script one after another."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.pos = 0

    def next_statement(self) -> bool:
        """Go to the next statement. Return whether there is one."""
        match = _BETWEEN.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()
        return self.pos < len(self.text)

    def at_end_of_statement(self) -> bool:
        """Skip blanks and comments. Return whether the statement ends here."""
        match = _SKIPPED.match(self.text, self.pos)
        assert match is not None
        self.pos = match.end()
        return self.pos >= len(self.text) or self.text[self.pos] in "\n;"

    def words(self) -> list[CommandWord]:
        """Return the words up to the end of the statement. Raises AwsCommandError."""
        words: list[CommandWord] = []
        while not self.at_end_of_statement():
            words.append(self._word())
        return words

    def _word(self) -> CommandWord:
        start = self.pos
        parts: list[str] = []
        is_quoted = self.text[start] in "\"'"
        while self.pos < len(self.text) and self.text[self.pos] not in " \t\r\n;":
            sign = self.text[self.pos]
            if sign in "\"'":
                parts.append(self._read_quoted(sign))
            elif sign == "\\":
                parts.append(self._escape())
            else:
                match = _BARE.match(self.text, self.pos)
                if match is None:
                    raise AwsCommandError(
                        f"{sign!r} is for a shell, and there is none here; write it in single quotes", self.pos
                    )
                parts.append(match[0])
                self.pos = match.end()
        return CommandWord("".join(parts), start, self.pos, is_quoted)

    def _read_quoted(self, sign: str) -> str:
        match = (_SINGLE if sign == "'" else _DOUBLE).match(self.text, self.pos)
        if match is None:
            raise AwsCommandError("a quote is not closed, or has a backtick in it", self.pos)
        start, self.pos = self.pos, match.end()
        if sign == "'":
            return match[1]
        if _SUBSTITUTION.search(match[1]):
            raise AwsCommandError("a shell would replace a part of this text; write it in single quotes", start)
        return _ESCAPED.sub(lambda escape: escape[1] or "", match[1])

    def _escape(self) -> str:
        escaped = self.text[self.pos + 1 : self.pos + 2]
        if not escaped:
            raise AwsCommandError("a backslash ends the script", self.pos)
        self.pos += 2
        return "" if escaped == "\n" else escaped
