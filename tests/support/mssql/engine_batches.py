"""Splitting a batch of T-SQL into statements, and control flow. A statement ends where the next one can begin."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import tokenize
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType
from tests.support.mssql.sqlserver_errors import SqlError, syntax_error

_STARTS: Final = frozenset(
    {
        *("SELECT", "WITH", "INSERT", "UPDATE", "DELETE", "MERGE", "CREATE", "ALTER", "DROP", "TRUNCATE", "DECLARE"),
        *("SET", "USE", "PRINT", "RAISERROR", "THROW", "BEGIN", "COMMIT", "ROLLBACK", "SAVE", "IF", "ELSE", "WHILE"),
        *("BREAK", "CONTINUE", "RETURN", "WAITFOR", "EXEC", "EXECUTE", "END", "GRANT", "REVOKE", "DENY", "OPEN"),
        *("FETCH", "CLOSE", "DEALLOCATE", "DBCC", "KILL", "RECONFIGURE", "CHECKPOINT"),
    }
)
_ONLY_ON_A_NEW_LINE: Final = frozenset({"OPEN", "CLOSE", "KILL", "SAVE", "THROW", "CHECKPOINT", "BREAK", "CONTINUE"})
# Words behind which the tokenizer does not look for tokens.
_RAW: Final = re.compile(
    r"\b(?:PRINT|FETCH|SHOW|CALL|EXPLAIN|OPTIMIZE|PREPARE|VACUUM|RENAME|END|STATISTICS)\b", re.IGNORECASE
)
_QUERIES: Final = frozenset(["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"])


@dataclass(frozen=True)
class Plain:
    """A statement without control flow. `first` is its first word."""

    text: str
    first: str
    line: int


@dataclass(frozen=True)
class Block:
    body: Sequence[Step]


@dataclass(frozen=True)
class Branch:
    condition: str
    then: Step
    otherwise: Step | None


@dataclass(frozen=True)
class Loop:
    condition: str
    body: Step


@dataclass(frozen=True)
class Attempt:
    """TRY and CATCH."""

    body: Block
    handler: Block


Step = Plain | Block | Branch | Loop | Attempt


def split(text: str) -> list[Step]:
    """Return the steps of a batch. Raises SqlError for what is no T-SQL."""
    try:
        tokens = list(tokenize(_RAW.sub(lambda word: word[0][:-1] + "_", text), read="tsql"))
    except TokenError as error:
        raise SqlError(105, f"Unclosed quotation mark: {error}", 15) from None
    reader = _Reader(text, tokens)
    steps = list(reader.steps(()))
    if reader.pos < len(tokens):
        raise syntax_error(tokens[reader.pos].text)
    return steps


@dataclass
class _Reader:
    text: str
    tokens: Sequence[Token]
    pos: int = field(default=0)

    def word(self, ahead: int = 0) -> str:
        place = self.pos + ahead
        if place >= len(self.tokens) or self.tokens[place].token_type in (TokenType.STRING, TokenType.NATIONAL_STRING):
            return ""
        token = self.tokens[place]
        return "" if self.text[token.start] in '["' else self.text[token.start : token.end + 1].upper()

    def steps(self, until: tuple[str, ...]) -> Iterator[Step]:
        while self.pos < len(self.tokens):
            if self.word() == ";":
                self.pos += 1
            elif self.word() in until:
                return
            else:
                yield self.step()

    def step(self) -> Step:
        first, second = self.word(), self.word(1)
        if first == "BEGIN" and second in ("TRY", "CATCH"):
            return self._attempt()
        if first == "BEGIN" and second not in ("TRAN", "TRANSACTION", "DISTRIBUTED"):
            self.pos += 1
            block = Block(list(self.steps(("END",))))
            self._expect("END")
            return block
        if first in ("IF", "WHILE"):
            self.pos += 1
            condition = self._condition()
            body = self.step()
            if first == "WHILE":
                return Loop(condition, body)
            while self.word() == ";" and self.word(1) == "ELSE":
                self.pos += 1
            otherwise = None
            if self.word() == "ELSE":
                self.pos += 1
                otherwise = self.step()
            return Branch(condition, body, otherwise)
        if first in ("END", "ELSE", ")"):
            raise syntax_error(first)
        return self._plain()

    def _attempt(self) -> Attempt:
        blocks = []
        for name in ("TRY", "CATCH"):
            while self.word() == ";":
                self.pos += 1
            self._expect("BEGIN")
            self._expect(name)
            blocks.append(Block(list(self.steps(("END",)))))
            self._expect("END")
            self._expect(name)
        return Attempt(blocks[0], blocks[1])

    def _expect(self, word: str) -> None:
        if self.word() != word:
            raise syntax_error(self.word() or "end of batch")
        self.pos += 1

    def _slice(self, start: int) -> str:
        return self.text[self.tokens[start].start : self.tokens[self.pos - 1].end + 1]

    def _condition(self) -> str:
        start, depth = self.pos, 0
        while self.pos < len(self.tokens):
            word = self.word()
            if depth == 0 and word in _STARTS and self.pos > start:
                break
            depth += (word in ("(", "CASE")) - (word in (")", "END"))
            self.pos += 1
        if self.pos == start:
            raise syntax_error("IF")
        return self._slice(start)

    def _plain(self) -> Plain:
        start, first = self.pos, self.word()
        if start >= len(self.tokens):
            raise syntax_error("end of batch")
        line = self.tokens[start].line
        self.pos += 1
        if first in ("CREATE", "ALTER") and self._defines_code():
            self.pos = len(self.tokens)
            return Plain(self._slice(start), first, line)
        depth, used = 0, [first]
        while self.pos < len(self.tokens):
            word = self.word()
            if word == ";" and depth <= 0:
                break
            if depth <= 0 and word in _STARTS and not self._continues(used, word):
                break
            used.append(word)
            depth += (word in ("(", "CASE")) - (word in (")", "END"))
            self.pos += 1
        return Plain(self._slice(start), first, line)

    def _defines_code(self) -> bool:
        words = [self.word(0), self.word(2)] if self.word() == "OR" else [self.word()]
        return words[-1] in ("PROC", "PROCEDURE", "FUNCTION", "TRIGGER", "VIEW")

    def _continues(self, used: list[str], word: str) -> bool:
        """Whether a word that can begin a statement belongs to the present one."""
        first, last, before = used[0], used[-1], used[-2:]
        if last == ".":
            return True
        if word == "WITH":
            return self.word(1) == "(" or first in ("CREATE", "EXEC", "EXECUTE", "RAISERROR", "SELECT", "INSERT")
        if word in _ONLY_ON_A_NEW_LINE and self.tokens[self.pos].line == self.tokens[self.pos - 1].line:
            return True
        if first == "WITH":
            if word in _QUERIES and not any(name in _QUERIES for name in _outside(used)):
                return True
            main = next((name for name in _outside(used) if name in _QUERIES), "")
            return main in _QUERIES and self._continues_query(main, used[used.index(main) :], word)
        if first in ("GRANT", "REVOKE", "DENY"):
            return "ON" not in used and "TO" not in used
        if first in ("CREATE", "ALTER", "DROP"):
            return (
                (word in ("DELETE", "UPDATE") and last == "ON")
                or (word == "SET" and (before[-1] in ("DELETE", "UPDATE") or first == "ALTER"))
                or (first == "ALTER" and word in ("DROP", "ALTER", "WITH") and len(used) < 6)
            )
        if first == "DECLARE":
            return last == "FOR" and word == "SELECT"
        return self._continues_query(first, used, word)

    def _continues_query(self, first: str, used: list[str], word: str) -> bool:
        last = used[-1]
        if first == "MERGE":
            return True
        if word == "SELECT" and (last in ("UNION", "EXCEPT", "INTERSECT") or used[-2:] == ["UNION", "ALL"]):
            return True
        if first == "INSERT" and word in ("SELECT", "EXEC", "EXECUTE", "SET"):
            outside = _outside(used)
            return not {"SELECT", "EXEC", "EXECUTE", "VALUES", "DEFAULT"} & set(outside)
        if first == "UPDATE":
            return word == "SET" and "SET" not in used
        if first == "SELECT" and word == "FETCH":
            return "OFFSET" in used
        return first == "SET" and word in ("SELECT",) and last == "="


def _outside(used: list[str]) -> list[str]:
    """Return the words that are not in parentheses."""
    depth, outside = 0, []
    for word in used:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            outside.append(word)
    return outside
