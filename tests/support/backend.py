"""A tiny PostgreSQL backend: answers each message as the real one does, without any data.

A statement is its text: `rows N` yields N rows that hold a secret each, `insert …` runs, `begin`, `commit` and
`rollback` are what they are, `copy in` and `copy out` copy, the empty text is an empty query, anything else is a
syntax error. `committed` has the inserts that were committed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.support.protocols import postgres_test_messages as pg

ABORTED = pg.error("current transaction is aborted", "25P02")
FIELDS = pg.row_description("n", "s")


class Failure(Exception):
    """An ErrorResponse, to be sent."""

    def __init__(self, response: bytes) -> None:
        super().__init__(response)
        self.response = response


@dataclass
class Portal:
    text: str
    given: int = 0


@dataclass
class Backend:
    """`secret` is what the rows show: another word makes this the model of what a masked client sees."""

    secret: str = "secret-1"
    status: bytes = b"I"
    skipping: bool = False
    has_run: bool = False  # an Execute since the last ReadyForQuery
    statements: dict[bytes, str] = field(default_factory=dict)
    portals: dict[bytes, Portal] = field(default_factory=dict)
    committed: list[str] = field(default_factory=list)
    _pending: list[str] = field(default_factory=list)
    _unread: bytes = b""
    _copying: list[str] | None = None  # statements of a query that follow the copy under way
    _extended_copy: bool = False
    closed: bool = False

    def feed(self, data: bytes) -> bytes:
        self._unread += data
        out: list[bytes] = []
        while len(self._unread) >= 5:
            size = 1 + int.from_bytes(self._unread[1:5], "big")
            if len(self._unread) < size:
                break
            tag, body = self._unread[:1], self._unread[5:size]
            self._unread = self._unread[size:]
            out.append(self._message(tag, body))
        return b"".join(out)

    @property
    def idle(self) -> bool:
        return not self._unread and self._copying is None and not self.skipping

    def _message(self, tag: bytes, body: bytes) -> bytes:
        if tag == b"X":
            self.closed = True
        if self._copying is not None:
            return self._copy(tag, body)
        if tag in b"dcfHX":
            return b""
        if tag == b"S":
            self.skipping = False
            return self._ready()
        if self.skipping:
            return b""
        if tag == b"Q":
            return self._simple(body[:-1].decode().split(";"))
        if tag == b"F":
            return (ABORTED if self.status == b"E" else pg.function_result("ok")) + self._ready()
        try:
            return self._extended(tag, body)
        except Failure as failure:
            self._fail()
            self.skipping = True
            return failure.response

    def _ready(self) -> bytes:
        if self.status == b"I":
            self.committed += self._pending
            self._pending = []
            self.portals.clear()
        self.has_run = False
        return pg.ready(self.status)

    def _fail(self) -> None:
        if self.status == b"I":
            self._pending = []
        else:
            self.status = b"E"

    def _simple(self, texts: list[str]) -> bytes:
        out: list[bytes] = []
        for index, text in enumerate(texts):
            if text == "copy in" and self.status != b"E":
                self._copying = texts[index + 1 :]
                return b"".join([*out, pg.copy_in()])
            try:
                out.append((FIELDS if text.startswith("rows") and self.status != b"E" else b"") + self._run(text, 0, 0))
            except Failure as failure:
                self._fail()
                out.append(failure.response)
                break
        return b"".join(out) + self._ready()

    def _copy(self, tag: bytes, body: bytes) -> bytes:
        if tag in b"dSH":
            return b""
        rest, self._copying = self._copying or [], None
        extended, self._extended_copy = self._extended_copy, False
        if tag == b"c":
            done = pg.command_complete("COPY 1")
            return done if extended else done + (self._simple(rest) if rest else self._ready())
        assert tag == b"f", f"{tag!r} in the middle of a copy"
        self._fail()
        self.skipping = extended
        return pg.error("COPY from stdin failed", "57014") + (b"" if extended else self._ready())

    def _run(self, text: str, given: int, limit: int) -> bytes:
        if self.status == b"E" and text not in ("commit", "rollback"):
            raise Failure(ABORTED)
        if text == "":
            return pg.empty_query()
        if text.startswith("rows "):
            count = int(text.split()[1]) - given
            shown = min(count, limit) if limit else count
            rows = [pg.data_row(str(given + index), self.secret) for index in range(shown)]
            end = pg.portal_suspended() if limit and shown == limit else pg.command_complete(f"SELECT {shown}")
            return b"".join(rows) + end
        if text.startswith("insert"):
            self._pending.append(text)
            return pg.command_complete("INSERT 0 1")
        if text == "copy out":
            return pg.copy_out() + pg.copy_data(f"{self.secret}\n") + pg.copy_done() + pg.command_complete("COPY 1")
        if text == "begin":
            self.status = b"T"
            return pg.command_complete("BEGIN")
        if text in ("commit", "rollback"):
            if text == "rollback" or self.status == b"E":
                self._pending = []
            self.status = b"I"
            return pg.command_complete(text.upper())
        raise Failure(pg.error(f"syntax error at or near {self.secret}"))

    def _extended(self, tag: bytes, body: bytes) -> bytes:
        words = body.split(b"\0")
        if tag == b"P":
            return self._parse(words[0], words[1].decode())
        if tag == b"B":
            return self._bind(words[0], words[1])
        kind, name = (body[:1], words[0][1:]) if tag in b"DC" else (b"P", words[0])
        if tag == b"C":
            (self.statements if kind == b"S" else self.portals).pop(name, None)
            return pg.close_complete()
        if tag == b"D" and kind == b"S":
            if name not in self.statements:
                raise Failure(pg.error("prepared statement does not exist", "26000"))
            return pg.parameter_description() + self._description(self.statements[name])
        portal = self.portals.get(name)
        if portal is None:
            raise Failure(pg.error("portal does not exist", "34000"))
        if tag == b"D":
            return self._description(portal.text)
        self.has_run = True
        limit = int.from_bytes(body[-4:], "big")
        if portal.text == "copy in" and self.status != b"E":
            self._copying, self._extended_copy = [], True
            return pg.copy_in()
        answer = self._run(portal.text, portal.given, limit)
        portal.given += answer.count(self.secret.encode())
        return answer

    def _description(self, text: str) -> bytes:
        if not text.startswith("rows"):
            return pg.no_data()
        if self.status == b"E":
            raise Failure(ABORTED)
        return FIELDS

    def _parse(self, name: bytes, text: str) -> bytes:
        if self.status == b"E" and text not in ("commit", "rollback"):
            raise Failure(ABORTED)
        if text.split(" ")[0] not in ("rows", "insert", "begin", "commit", "rollback", "copy", ""):
            raise Failure(pg.error(f"syntax error at or near {self.secret}"))
        if name and name in self.statements:
            raise Failure(pg.error("prepared statement exists", "42P05"))
        self.statements[name] = text
        return pg.parse_complete()

    def _bind(self, portal: bytes, name: bytes) -> bytes:
        if name not in self.statements:
            raise Failure(pg.error("prepared statement does not exist", "26000"))
        if self.status == b"E" and self.statements[name] not in ("commit", "rollback"):
            raise Failure(ABORTED)
        if portal and portal in self.portals:
            raise Failure(pg.error("portal exists", "42P03"))
        self.portals[portal] = Portal(self.statements[name])
        return pg.bind_complete()
