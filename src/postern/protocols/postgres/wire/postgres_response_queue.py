"""The queue of responses that the target owes, and the meanings of the names of statements and portals.

Theory. The backend responds in the order of requests, so every request with a response adds an entry to a queue, and
every response belongs to the entry at its head. A refused request adds an entry as well: its error is sent once it
reaches the head, never before earlier responses.

An error in the extended protocol makes the backend skip everything up to the next Sync, including simple queries and
our own refusals. Their entries are removed, and the client gets only the first error. If there is no Sync yet, messages
until then add no entries.

    entries:   Parse  Bind  Execute  Sync │ Query │ REFUSED │ Parse …
    responses:   1     2     D…D C    Z   │ …C Z  │ E Z     │

Names. A client may reuse the name of a statement or portal while earlier messages are pending, and the backend rejects
some reuses. Until it has confirmed a name, a Bind or Execute may mean the old object or any proposed one. `NameStates`
stores all of them, and an Execute is evaluated for every candidate. The columns of a name are never cached: SQL can
give a name another meaning (DEALLOCATE and PREPARE, CLOSE and DECLARE), so each Execute whose rows are inspected is
described again.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_name_references import may_run_by_name
from postern.protocols.refusal_texts import SQL_ASCII

# Requests that wait for their responses. A refused request is not sent to the target, so it does not slow the client
# down.
MAX_OWED: Final = 65_536

# Kinds of entries
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

_NAMES: Final = (
    "Query",
    "Parse",
    "Bind",
    "Describe",
    "Execute",
    "Close",
    "Sync",
    "FunctionCall",
    "refusal",
    "rollback",
)

# Entries whose last response is a ReadyForQuery.
_BOUNDARIES = frozenset({QUERY, SYNC, FUNCTION})

MAX_NAMES = 100_000

# Settings that change the meaning of statements, and whose changes the target reports.
REPORTED: Final = frozenset({"DateStyle", "IntervalStyle", "TimeZone", "is_superuser", "session_authorization"})


def _masks(answers: dict[int, tuple[int, ...]]) -> list[int]:
    """Return a bit for each kind of request, per tag. It is used for every message, and avoids hashing."""
    masks = [0] * 256
    for tag, kinds in answers.items():
        for kind in kinds:
            masks[tag] |= 1 << kind
    return masks


# The requests to which each response without text belongs; NoData never responds to a simple query.
ANSWERS: Final = _masks(
    {
        m.PARSE_COMPLETE: (PARSE,),
        m.BIND_COMPLETE: (BIND,),
        m.CLOSE_COMPLETE: (CLOSE,),
        m.PORTAL_SUSPENDED: (EXECUTE,),
        m.COMMAND_COMPLETE: (QUERY, EXECUTE),
        m.EMPTY_QUERY_RESPONSE: (QUERY, EXECUTE),
        m.ROW_DESCRIPTION: (QUERY, DESCRIBE),
        m.NO_DATA: (DESCRIBE,),
        m.PARAMETER_DESCRIPTION: (DESCRIBE,),
        m.COPY_IN_RESPONSE: (QUERY, EXECUTE),
        m.COPY_OUT_RESPONSE: (QUERY, EXECUTE),
        m.COPY_DONE: (QUERY, EXECUTE),
    }
)


class PostgresStatement:
    """A prepared statement. `types` are the OIDs of its parameters, as far as they are known."""

    __slots__ = ("runs_by_name", "text", "types")

    def __init__(self, text: str, types: tuple[int, ...] = ()) -> None:
        self.text = text
        self.types = types
        self.runs_by_name = may_run_by_name(text)  # each Execute needs it


class Portal:
    """A bound statement: every statement that its name may have meant, and the bound values. For `unsure` and `types`
    see Operation."""

    __slots__ = ("began", "statements", "truncated", "types", "unsure", "values")

    def __init__(
        self,
        statements: list[PostgresStatement],
        values: tuple[bytes | None, ...] = (),
        unsure: tuple[int, ...] = (),
        types: tuple[int, ...] = (),
    ) -> None:
        self.statements = statements
        self.values = values
        self.truncated = False
        self.unsure = unsure
        self.types = types
        self.began = 0  # the exchange of its first Execute


T = TypeVar("T")


class NameStates(Generic[T]):
    """The meanings of a name: the confirmed object, then the proposed ones in order."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[bytes, list[T]] = {}

    def propose(self, name: bytes, thing: T) -> None:
        things = self._found.get(name)
        if things is not None:
            things.append(thing)
            return
        if len(self._found) >= MAX_NAMES:
            raise ProtocolViolation(f"more than {MAX_NAMES} prepared statements or portals on one connection")
        self._found[name] = [thing]

    def confirm(self, name: bytes, thing: T) -> None:
        things = self._found.get(name)
        if things is not None and len(things) > 1 and thing in things:
            del things[: things.index(thing)]

    def fail(self, name: bytes, thing: T) -> None:
        things = self._found.get(name)
        if things is not None and thing in things:
            things.remove(thing)
            if not things:
                del self._found[name]

    def __bool__(self) -> bool:
        return bool(self._found)

    def names(self) -> list[bytes]:
        return list(self._found)

    def candidates(self, name: bytes) -> list[T]:
        return self._found.get(name, [])

    def candidates_including_batch(self, name: bytes, batch: dict[bytes, T]) -> list[T]:
        """Return everything that the name may mean, including objects of an open batch."""
        return [*self.candidates(name), *((batch[name],) if name in batch else ())]

    def forget(self, name: bytes) -> None:
        self._found.pop(name, None)

    def clear(self) -> None:
        self._found.clear()


class PostgresPendingResponse:
    """One owed response. `hidden` ones are for the gateway: the client never sees them."""

    __slots__ = (
        "began",
        "copies_ended",
        "data",
        "described",
        "exchange",
        "hidden",
        "informs",
        "kind",
        "name",
        "portal",
        "ready",
        "statement",
    )

    def __init__(self, kind: int, exchange: int = 0, name: bytes = b"") -> None:
        self.kind = kind
        self.exchange = exchange
        self.name = name
        self.statement: PostgresStatement | None = None
        self.portal: Portal | None = None
        self.hidden = False
        self.began = 0  # EXECUTE: the exchange of the first one of its portal
        self.informs: PostgresPendingResponse | None = None  # DESCRIBE: the Execute whose rows it describes
        self.described: bytes | None = None  # EXECUTE: the body of its RowDescription; DESCRIBE: of its response
        self.copies_ended = 0  # copies that the client has ended before it knew that they began
        self.data = b""  # REFUSED: the error for the client; warnings use it as well
        self.ready = False  # REFUSED: a ReadyForQuery of ours follows


_FORGOTTEN: Final = 64  # answered entries before the first owed one, before they are removed


class OwedResponses:
    """The owed responses in order, the next one as `head`: compiled code reads it as an attribute. Copy it to a
    variable before a test for None: type checkers do not see that `popleft` changes it."""

    __slots__ = ("_entries", "_start", "head")

    def __init__(self) -> None:
        self._entries: list[PostgresPendingResponse] = []
        self._start: i64 = 0  # index of the head
        self.head: PostgresPendingResponse | None = None

    def __len__(self) -> int:
        return int(len(self._entries) - self._start)

    @property
    def last(self) -> PostgresPendingResponse:
        return self._entries[-1]

    def append(self, slot: PostgresPendingResponse) -> None:
        self._entries.append(slot)
        if self.head is None:
            self.head = slot

    def popleft(self) -> PostgresPendingResponse:
        """Remove the head. Raises IndexError if there is none."""
        entries = self._entries
        slot = entries[self._start]
        self._start += 1
        if self._start == len(entries):
            entries.clear()
            self._start = 0
            self.head = None
            return slot
        if self._start >= _FORGOTTEN and 2 * self._start >= len(entries):
            del entries[: self._start]
            self._start = 0
        self.head = entries[self._start]
        return slot

    def behind_head(self) -> list[PostgresPendingResponse]:
        return self._entries[self._start + 1 :]

    def remove_behind_head(self) -> None:
        """Remove the entry after the head."""
        del self._entries[self._start + 1]


class PostgresResponseQueue:
    """The state that both directions of one link share."""

    __slots__ = (
        "copy_in",
        "doubtful_syncs",
        "encoding",
        "exchange",
        "portals",
        "ran",
        "reported",
        "skipping",
        "slots",
        "statements",
        "status",
        "unread",
        "unsynced",
    )

    def __init__(self) -> None:
        self.slots = OwedResponses()
        self.statements: NameStates[PostgresStatement] = NameStates()
        self.portals: NameStates[Portal] = NameStates()
        self.status = b"I"  # status of the last ReadyForQuery
        self.copy_in = False  # the backend is reading CopyData
        # Read as a part of a copy, as far as is known: if a copy fails at once, its Sync gets a response.
        self.doubtful_syncs = 0
        self.skipping = False  # after an error, the backend skips to a Sync that was not sent yet
        self.unsynced = False  # the backend has messages since the last Sync
        self.ran = False  # … including an Execute
        self.encoding = "utf-8"  # Python's codec, or SQL_ASCII
        self.unread = ""  # the client encoding, if rules cannot rely on how it is read here
        self.exchange = 0
        self.reported: dict[str, str] = {}  # settings of REPORTED, as the target last reported them

    def next_exchange(self) -> int:
        self.exchange += 1
        return self.exchange

    def encode(self, client_encoding: str) -> None:
        """Use this encoding, named as the target names it, for all further messages."""
        name = client_encoding.upper()
        codec = _CODECS.get(name)
        self.encoding = _UNREAD.get(name, "latin-1") if codec is None else codec
        self.unread = name if codec is None else ""

    @property
    def state(self) -> str:
        """Return the target's state, for the log."""
        if self.copy_in:
            return "while the client sends COPY data"
        head = self.slots.head
        if head is None:
            return "with no pending response"
        return f"while the response to {_NAMES[head.kind]} is pending"

    def add(self, slot: PostgresPendingResponse) -> None:
        """Add an owed response, unless the backend skips its request. Raises ProtocolViolation."""
        if slot.kind == REFUSED and len(self.slots) >= MAX_OWED:
            raise ProtocolViolation(f"more than {MAX_OWED} requests wait for their responses, including denied ones")
        if self.skipping:
            if slot.kind != SYNC:
                return
            self.skipping = False
        if slot.kind == PARSE and slot.statement is not None:
            self.statements.propose(slot.name, slot.statement)
        elif slot.kind == BIND and slot.portal is not None:
            self.portals.propose(slot.name, slot.portal)
        self.slots.append(slot)

    def fail(self) -> None:
        """Handle an error for the head. In the extended protocol, the backend now skips to the next Sync."""
        slots = self.slots
        slot = slots.head
        if slot is None or slot.kind in _BOUNDARIES:
            return
        while slot is not None:
            if slot.kind == SYNC:
                return
            slots.popleft()
            if slot.kind == PARSE and slot.statement is not None:
                self.statements.fail(slot.name, slot.statement)
            elif slot.kind == BIND and slot.portal is not None:
                self.portals.fail(slot.name, slot.portal)
            slot = slots.head
        self.skipping = True

    def begin_copy_in(self, head: PostgresPendingResponse) -> None:
        """Start COPY: the backend reads CopyData. A Sync that is pending behind the copy is read as a part of it, and
        ignored."""
        slots = self.slots
        self.doubtful_syncs = 0
        for behind in slots.behind_head():
            if head.copies_ended or behind.kind != SYNC:
                break
            head.copies_ended = behind.copies_ended
            slots.remove_behind_head()
            self.doubtful_syncs += 1
        if head.kind == EXECUTE and len(slots) == 1:
            self.unsynced = self.ran = True
        if head.copies_ended:
            head.copies_ended -= 1
        else:
            self.copy_in = True

    def end_copy_in(self) -> None:
        """End COPY: the client sent CopyDone or CopyFail, which the backend ignores outside of a copy."""
        if self.copy_in:
            self.copy_in = False
        elif self.slots.head is not None:
            self.slots.last.copies_ended += 1

    def complete(self, slot: PostgresPendingResponse) -> None:
        """Apply the effect of a request that the backend has completed on the meaning of names."""
        if slot.kind == PARSE and slot.statement is not None:
            self.statements.confirm(slot.name, slot.statement)
        elif slot.kind == BIND and slot.portal is not None:
            self.portals.confirm(slot.name, slot.portal)
        elif slot.kind == CLOSE and slot.statement is not None:
            self.statements.fail(slot.name, slot.statement)
        elif slot.kind == CLOSE and slot.portal is not None:
            self.portals.fail(slot.name, slot.portal)


# By the target's name: all single-byte encodings in which ASCII is ASCII, and UTF-8.
_CODECS: Final = {
    "UTF8": "utf-8",
    "SQL_ASCII": SQL_ASCII,
    "KOI8R": "koi8-r",
    "KOI8U": "koi8-u",
    **{f"LATIN{n}": f"iso8859-{part}" for n, part in enumerate((1, 2, 3, 4, 9, 10, 13, 14, 15, 16), 1)},
    **{f"ISO_8859_{n}": f"iso8859-{n}" for n in (5, 6, 7, 8)},
    **{f"WIN{n}": f"cp{n}" for n in (866, 874, 1250, 1251, 1252, 1253, 1254, 1255, 1256, 1257, 1258)},
}

# For recordings only: in most of these an ASCII byte can be the second half of a character, and Python's codecs differ
# from the target's. Any other encoding is read byte by byte.
_UNREAD: Final = {
    "BIG5": "big5",
    "EUC_CN": "gb2312",
    "EUC_JIS_2004": "euc_jis_2004",
    "EUC_JP": "euc_jp",
    "EUC_KR": "euc_kr",
    "GB18030": "gb18030",
    "GBK": "gbk",
    "JOHAB": "johab",
    "SHIFT_JIS_2004": "shift_jis_2004",
    "SJIS": "cp932",
    "UHC": "cp949",
}
