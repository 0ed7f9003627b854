"""Bytes of TNS and TTC as thin clients and servers send them, built by hand and not by the product's codec."""

from __future__ import annotations

from dataclasses import dataclass

VARCHAR, NUMBER, LONG, DATE, RAW, CLOB, CURSOR, TIMESTAMP, UROWID = 1, 2, 8, 12, 23, 112, 102, 180, 208
OUT, IN, IN_OUT = 16, 32, 48
SDU = 8192


def ub(value: int) -> bytes:
    """A number of variable size."""
    if not value:
        return b"\0"
    size = next(size for size in (1, 2, 4, 8) if value < 1 << 8 * size)
    return bytes((size,)) + value.to_bytes(size, "big")


def clr(value: bytes | None, chunk: int = 32_767) -> bytes:
    """Bytes with their length; long ones in chunks."""
    if not value:
        return b"\0"
    if len(value) <= 252:
        return bytes((len(value),)) + value
    parts = [value[start : start + chunk] for start in range(0, len(value), chunk)]
    return b"\xfe" + b"".join([ub(len(part)) + part for part in parts]) + b"\0"


def dlc(value: bytes) -> bytes:
    return ub(len(value)) + clr(value) if value else b"\0"


def data(*messages: bytes, flags: int = 0, size: int = SDU) -> bytes:
    """DATA packets with these messages."""
    stream = b"".join(messages)
    room = size - 10
    parts = [stream[start : start + room] for start in range(0, len(stream), room)] or [b""]
    return b"".join(
        [(10 + len(part)).to_bytes(4, "big") + b"\x06\0\0\0" + flags.to_bytes(2, "big") + part for part in parts]
    )


def marker(kind: int) -> bytes:
    return b"\0\0\0\x0b\x0c\0\0\0\1\0" + bytes((kind,))


END_OF_FILE = data(flags=0x40)


def bodies(packets: bytes) -> bytes:
    """The bodies of DATA packets, joined."""
    out = b""
    while packets:
        size = int.from_bytes(packets[:4], "big")
        assert packets[4] == 6, packets[:11]
        out += packets[10:size]
        packets = packets[size:]
    return out


@dataclass(frozen=True)
class Bind:
    """A bind, or a define."""

    type: int = VARCHAR
    size: int = 100
    flags: int = 1
    options: int = 0
    characters: int = 0
    form: int = 1

    def encode(self) -> bytes:
        return b"".join(
            [
                bytes((self.type, self.flags, 0, 0)),
                ub(self.size) + b"\0" + ub(self.options),
                b"\0\0",
                ub(873) + bytes((self.form,)),
                ub(self.characters) + b"\0",
            ]
        )


@dataclass(frozen=True)
class Execute:
    """An execution. `rows` are rows of encoded values."""

    text: str = ""
    cursor: int = 0
    binds: tuple[Bind, ...] = ()
    rows: tuple[tuple[bytes, ...], ...] = ()
    defines: tuple[Bind, ...] = ()
    options: int = 0x8061
    is_query: bool = True
    flags: int = 0x8000
    version: int = 12
    count: int | None = None

    def encode(self, sequence: int = 1) -> bytes:
        text = self.text.encode()
        count = (2 if self.is_query else max(len(self.rows), 1)) if self.count is None else self.count
        numbers = [1 if text else 0, count, 0, 0, 0, 0, 0, int(self.is_query), 0, self.flags, 0, 0, 0]
        return b"".join(
            [
                bytes((3, 94, sequence)),
                ub(self.options) + ub(self.cursor),
                (b"\1" if text else b"\0") + ub(len(text)),
                b"\1" + ub(13) + b"\0\0",
                b"\0" + ub(2) + ub(0x7FFFFFFF),
                (b"\1" if self.binds else b"\0") + ub(len(self.binds)),
                bytes(5),
                (b"\1" if self.defines else b"\0") + ub(len(self.defines)),
                b"\0" + b"\0\1" + bytes(4) + b"\0",
                b"\0\0\0",
                bytes(5) if self.version >= 8 else b"",
                bytes(2) if self.version >= 9 else b"",
                clr(text) if text else b"",
                *[ub(number) for number in numbers],
                *[define.encode() for define in self.defines],
                *[bind.encode() for bind in self.binds],
                *[b"\x07" + b"".join(row) for row in self.rows],
            ]
        )


def execute(text: str, *values: bytes | None, **options: object) -> bytes:
    """An execution of a statement with texts as binds."""
    is_query = text.lstrip("( ").upper().startswith(("SELECT", "WITH"))
    binds = tuple([Bind() for _ in values])
    rows = (tuple([clr(value) for value in values]),) if values else ()
    return Execute(text, binds=binds, rows=rows, is_query=is_query, **options).encode()  # type: ignore[arg-type]


def again(cursor: int, *rows: tuple[bytes, ...], fetch: bool = False, count: int = 1) -> bytes:
    """A re-execution of a cursor."""
    head = bytes((3, 78 if fetch else 4, 2)) + ub(cursor) + ub(count) + ub(0x20 if fetch else 0) + b"\0"
    return head + b"".join([b"\x07" + b"".join(row) for row in rows])


def fetch(cursor: int, rows: int = 100) -> bytes:
    return bytes((3, 5, 3)) + ub(cursor) + ub(rows)


def function(code: int) -> bytes:
    return bytes((3, code, 4))


COMMIT, ROLLBACK, LOGOFF, PING = function(14), function(15), function(9), function(147)


def close_cursors(*cursors: int) -> bytes:
    return bytes((17, 105, 5, 1)) + ub(len(cursors)) + b"".join([ub(cursor) for cursor in cursors])


def set_schema(name: str) -> bytes:
    return bytes((17, 152, 6, 1)) + dlc(name.encode())


def end_to_end(module: str) -> bytes:
    """A change of the attribute `module`."""
    nothing = b"\0\0"
    head = bytes((17, 135, 7, 0, 0)) + ub(8) + nothing + b"\1" + ub(len(module)) + nothing
    return head + nothing + nothing + nothing + nothing + nothing + nothing + clr(module.encode())


@dataclass(frozen=True)
class Described:
    """A column in a description."""

    name: str
    type: int = VARCHAR
    size: int = 100
    form: int = 1
    scale: int = 0

    def encode(self, packed: bool = False) -> bytes:
        scale = ub(self.scale) if packed else bytes((self.scale,))
        name = self.name.encode()
        return b"".join(
            [
                bytes((self.type, 0, 0)) + scale,
                ub(self.size) + b"\0\0\0\0",
                ub(873) + bytes((self.form,)),
                ub(self.size) + b"\0",
                bytes((1, len(name))),
                dlc(name),
                b"\0\0\0\0",
            ]
        )


def description(*columns: Described, packed: bool = False) -> bytes:
    """A description without its type."""
    inner = b"".join([column.encode(packed) for column in columns])
    return ub(400) + ub(len(columns)) + (b"\1" if columns else b"") + inner + bytes(6)


def describe(*columns: Described, packed: bool = False) -> bytes:
    return b"\x10" + clr(b"hash") + description(*columns, packed=packed)


def row_header(bits: bytes = b"") -> bytes:
    vector = ub(len(bits)) + (bytes((len(bits),)) + bits if bits else b"")
    return b"\x06\x01" + ub(0) + ub(1) + ub(1) + ub(0) + vector + b"\0"


def row(*values: bytes) -> bytes:
    return b"\x07" + b"".join(values)


def bit_vector(sent: int, bits: bytes) -> bytes:
    return b"\x15" + ub(sent) + bits


PARAMETERS = b"\x08" + ub(2) + ub(7) + ub(9) + b"\0" + b"\0" + b"\0"


@dataclass(frozen=True)
class End:
    """An ERROR message."""

    number: int = 0
    text: str = ""
    cursor: int = 0
    rows: int = 0
    status: int = 0
    row_errors: tuple[tuple[int, str], ...] = ()
    packed: bool = False
    flags: int = 0

    def encode(self) -> bytes:
        errors = self.row_errors
        flags = ub(self.flags) if self.packed else bytes((self.flags,))
        return b"".join(
            [
                b"\x04",
                ub(self.status) + ub(3) + ub(self.rows) + ub(self.number & 0xFFFF) + b"\0\0",
                ub(self.cursor) + b"\0" + b"\3",
                b"\0" + flags + b"\0" + b"\0\0",
                b"\0\0\0\0\0",
                b"\0\0\0\0\0",
                b"\0",
                ub(len(errors)) + (b"\1" + b"".join([ub(number) for number, _ in errors]) if errors else b""),
                ub(len(errors)) + (b"\1" + b"".join([ub(at) for at in range(len(errors))]) if errors else b""),
                ub(len(errors))
                + (b"\1" + b"".join([b"\0" + clr(text.encode()) + b"\0\0" for _, text in errors]) if errors else b""),
                ub(self.number) + ub(self.rows),
                clr(self.text.encode()) if self.number else b"",
            ]
        )


def done(**fields: int) -> bytes:
    return End(**fields).encode()  # type: ignore[arg-type]


def failed(number: int, text: str, **fields: int) -> bytes:
    return End(number, f"ORA-{number:05d}: {text}\n", **fields).encode()  # type: ignore[arg-type]


def no_more(cursor: int = 0) -> bytes:
    return failed(1403, "no data found", cursor=cursor)


def status(flags: int = 0) -> bytes:
    return b"\x09" + ub(flags) + ub(1)


def io_vector(*directions: int) -> bytes:
    count = len(directions)
    return b"\x0b\x01" + ub(count % 256) + ub(count // 256) + ub(1) + b"\0\0\0" + bytes(directions)


def result(columns: tuple[Described, ...], *rows: bytes, cursor: int = 1) -> bytes:
    """A whole result."""
    return b"".join([describe(*columns), row_header(), *rows, PARAMETERS, no_more(cursor)])


def lob_call(operation: int, locator: bytes, *, amount: int | None = None, content: bytes | None = None) -> bytes:
    """An operation on a LOB."""
    return b"".join(
        [
            bytes((3, 96, 9, 1)) + ub(len(locator)),
            b"\0\0" + b"\0\0" + b"\0\0\0",
            ub(operation),
            b"\0\0",
            ub(1) + b"\0",
            b"\0" if amount is None else b"\1",
            bytes(6),
            locator,
            b"" if amount is None else ub(amount),
            b"" if content is None else b"\x0e" + clr(content),
        ]
    )


def lob_data(content: bytes, chunk: int = 32_767) -> bytes:
    return b"\x0e" + clr(content, chunk)


def lob_done(locator: bytes, amount: int | None = None) -> bytes:
    return b"\x08" + locator + (b"" if amount is None else ub(amount)) + done()


def locator(*, is_blob: bool = False, wide: bool = False) -> bytes:
    """A locator of 40 bytes."""
    flags = bytearray(40)
    flags[1] = 0x26
    flags[4] = 1 if is_blob else 2
    flags[6] = 0x80 if wide else 0
    return bytes(flags)
