"""What the target still owes, in order, and what the names of statements and portals stand for.

Theory. The backend answers in the order of requests, so every request that expects an answer takes a
slot in a queue, and every answer belongs to the slot at its head. A refused request takes a slot as
well: its error comes out when it has reached the head, never before answers that are owed earlier.

An error in the extended protocol makes the backend skip everything up to the next Sync, so it drops
the slots up to that Sync, our own refusals among them: the client is told of the first error only.

    slots:   Parse  Bind  Execute  Sync │ Query │ REFUSED │ Parse …
    answers:   1     2     D…D C    Z   │ …C Z  │ E Z     │

Names. A client may reuse a statement or portal name while earlier messages are in flight, and the
backend refuses some reuses. Until it has confirmed a name, a Bind or Execute may mean the old object
or any proposed one; `Names` keeps all of them, and whoever judges an Execute judges every candidate.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

from postern.errors import ProtocolViolation
from postern.protocols.postgres.messages import Field, parse_row_description

# Kinds of slots
QUERY: Final = 0
PARSE: Final = 1
BIND: Final = 2
DESCRIBE: Final = 3
EXECUTE: Final = 4
CLOSE: Final = 5
SYNC: Final = 6
FUNCTION: Final = 7
REFUSED: Final = 8
POISON: Final = 9

# Slots whose last answer is a ReadyForQuery.
_BOUNDARIES = frozenset({QUERY, SYNC, FUNCTION})

MAX_NAMES = 100_000


class Statement:
    """A prepared statement. `described` is its RowDescription's body, None until the backend has sent one."""

    __slots__ = ("described", "text", "types")

    def __init__(self, text: str, types: tuple[int, ...] = ()) -> None:
        self.text = text
        self.types = types
        self.described: bytes | None = None


class Portal:
    """A bound statement. `described` is None until the backend has described the portal itself."""

    __slots__ = ("described", "result_formats", "statements", "truncated", "values")

    def __init__(
        self,
        statements: list[Statement],
        values: tuple[bytes | None, ...] = (),
        result_formats: tuple[int, ...] = (),
    ) -> None:
        self.statements = statements
        self.values = values
        self.result_formats = result_formats
        self.truncated = False
        self.described: bytes | None = None

    def known_columns(self) -> tuple[Field, ...] | None:
        """The columns with the formats that rows will have, or None where the backend must be asked."""
        if self.described is not None:
            return parse_row_description(self.described)
        if self.truncated or len(self.statements) != 1:
            return None
        described = self.statements[0].described
        if described is None:
            return None
        fields = parse_row_description(described)
        formats = self.result_formats
        if len(formats) not in (0, 1, len(fields)):
            return None
        if len(formats) <= 1:
            code = formats[0] if formats else 0
            return tuple([Field(field.name, field.oid, code) for field in fields])
        return tuple([Field(field.name, field.oid, code) for field, code in zip(fields, formats, strict=True)])


T = TypeVar("T")


class Names(Generic[T]):
    """What a name may stand for: the confirmed object, then the proposed ones in order."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[bytes, list[T]] = {}

    def propose(self, name: bytes, thing: T) -> None:
        known = self._found.get(name)
        if known is not None:
            known.append(thing)
            return
        if len(self._found) >= MAX_NAMES:
            raise ProtocolViolation(f"more than {MAX_NAMES} prepared statements or portals on one connection")
        self._found[name] = [thing]

    def confirm(self, name: bytes, thing: T) -> None:
        known = self._found.get(name)
        if known is not None and len(known) > 1 and thing in known:
            del known[: known.index(thing)]

    def fail(self, name: bytes, thing: T) -> None:
        known = self._found.get(name)
        if known is not None and thing in known:
            known.remove(thing)
            if not known:
                del self._found[name]

    def candidates(self, name: bytes) -> list[T]:
        return self._found.get(name, [])

    def forget(self, name: bytes) -> None:
        self._found.pop(name, None)

    def clear(self) -> None:
        self._found.clear()


class Slot:
    """One owed answer. `hidden` answers are ours: the client never sees them."""

    __slots__ = ("data", "exchange", "hidden", "kind", "name", "portal", "ready", "statement")

    def __init__(self, kind: int, exchange: int = 0, name: bytes = b"") -> None:
        self.kind = kind
        self.exchange = exchange
        self.name = name
        self.statement: Statement | None = None
        self.portal: Portal | None = None
        self.hidden = False
        self.data = b""  # REFUSED: what the client is told
        self.ready = False  # REFUSED: a ReadyForQuery of ours follows


class Ledger:
    """State that both directions of one link share."""

    __slots__ = ("copy_in", "encoding", "exchange", "portals", "ran", "slots", "statements", "status", "unsynced")

    def __init__(self) -> None:
        self.slots: deque[Slot] = deque()
        self.statements: Names[Statement] = Names()
        self.portals: Names[Portal] = Names()
        self.status = b"I"  # of the last ReadyForQuery
        self.copy_in = False  # the backend is reading CopyData
        self.unsynced = False  # the backend has messages since the last Sync
        self.ran = False  # … and an Execute is among them
        self.encoding = "utf-8"
        self.exchange = 0

    def next_exchange(self) -> int:
        self.exchange += 1
        return self.exchange

    def drop_until_sync(self) -> None:
        """After an error: the backend skips to the next Sync, and so do the slots."""
        slots = self.slots
        while slots and slots[0].kind not in _BOUNDARIES:
            slot = slots.popleft()
            if slot.kind == PARSE and slot.statement is not None:
                self.statements.fail(slot.name, slot.statement)
            elif slot.kind == BIND and slot.portal is not None:
                self.portals.fail(slot.name, slot.portal)

    def complete(self, slot: Slot) -> None:
        """The backend has done what the slot asked: names mean from now on what they should."""
        if slot.kind == PARSE and slot.statement is not None:
            self.statements.confirm(slot.name, slot.statement)
        elif slot.kind == BIND and slot.portal is not None:
            self.portals.confirm(slot.name, slot.portal)
        elif slot.kind == CLOSE and slot.statement is not None:
            self.statements.fail(slot.name, slot.statement)
        elif slot.kind == CLOSE and slot.portal is not None:
            self.portals.fail(slot.name, slot.portal)


def codec(client_encoding: str) -> str:
    """The Python codec of a client encoding; an unknown one is read byte by byte, which keeps ASCII."""
    return _CODECS.get(client_encoding.upper(), "latin-1")


_CODECS = {
    "UTF8": "utf-8",
    "SQL_ASCII": "latin-1",
    "BIG5": "big5",
    "EUC_CN": "gb2312",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "GB18030": "gb18030",
    "GBK": "gbk",
    "JOHAB": "johab",
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    "SJIS": "shift_jis",
    "UHC": "cp949",
    **{f"LATIN{n}": f"iso8859-{n if n < 5 else n + 4}" for n in range(1, 7)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)},
}
