"""Messages of the PostgreSQL protocol, both ways, for playbooks and doubles: one short function for each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.wire_base import Side

TEXT_OID, INT4_OID, UNKNOWN_OID = 25, 23, 705

Cell = bytes | str | None


def _bytes(value: bytes | str) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _sized(value: Cell) -> bytes:
    if value is None:
        return m.INT32.pack(-1)
    data = _bytes(value)
    return m.INT32.pack(len(data)) + data


def _int16s(codes: Sequence[int]) -> bytes:
    return struct.pack(f"!h{len(codes)}h", len(codes), *codes)


# What a client sends


def query(text: bytes | str) -> bytes:
    return m.query(_bytes(text))


def parse(text: bytes | str, name: str = "", types: Sequence[int] = ()) -> bytes:
    return m.message(
        b"P", m.cstring(name), m.cstring(_bytes(text)), struct.pack(f"!h{len(types)}I", len(types), *types)
    )


def bind(
    portal: str = "",
    statement: str = "",
    values: Sequence[Cell] = (),
    formats: Sequence[int] = (),
    results: Sequence[int] = (),
) -> bytes:
    cells = b"".join(_sized(value) for value in values)
    body = [m.cstring(portal), m.cstring(statement), _int16s(formats), struct.pack("!H", len(values)), cells]
    return m.message(b"B", *body, _int16s(results))


def describe_statement(name: str = "") -> bytes:
    return m.message(b"D", b"S", m.cstring(name))


def describe_portal(name: str = "") -> bytes:
    return m.message(b"D", b"P", m.cstring(name))


def execute(portal: str = "", limit: int = 0) -> bytes:
    return m.message(b"E", m.cstring(portal), m.INT32.pack(limit))


def close_statement(name: str = "") -> bytes:
    return m.message(b"C", b"S", m.cstring(name))


def close_portal(name: str = "") -> bytes:
    return m.message(b"C", b"P", m.cstring(name))


def sync() -> bytes:
    return m.SYNC_MESSAGE


def flush() -> bytes:
    return m.message(b"H")


def terminate() -> bytes:
    return m.TERMINATE_MESSAGE


def function_call(oid: int, arguments: Sequence[Cell] = (), result_format: int = 0) -> bytes:
    cells = b"".join(_sized(value) for value in arguments)
    head = struct.pack("!IhH", oid, 0, len(arguments))
    return m.message(b"F", head, cells, m.INT16.pack(result_format))


def copy_fail(reason: str = "") -> bytes:
    return m.message(b"f", m.cstring(reason))


# What both send


def copy_data(data: bytes | str) -> bytes:
    return m.message(b"d", _bytes(data))


def copy_done() -> bytes:
    return m.message(b"c")


# What a target sends


def row_description(
    *fields: str | tuple[str, int] | tuple[str, int, int] | tuple[str, int, int, int, int],
) -> bytes:
    """Each field is a name, or (name, type OID), and behind these the format, and the table's OID and the number of its
    column."""
    encoded: list[bytes] = []
    for field in fields:
        given: tuple[str | int, ...] = (field, TEXT_OID) if isinstance(field, str) else field
        name, oid, form, table, place = [*given, 0, 0, 0][:5]
        encoded.append(m.cstring(str(name)) + struct.pack("!IhIhih", table, place, oid, -1, -1, form))
    return m.message(b"T", m.INT16.pack(len(fields)), *encoded)


def data_row(*cells: Cell) -> bytes:
    return m.message(b"D", m.INT16.pack(len(cells)), *[_sized(cell) for cell in cells])


def command_complete(tag: str) -> bytes:
    return m.message(b"C", m.cstring(tag))


def ready(status: bytes = b"I") -> bytes:
    return m.ready_for_query(status)


def parse_complete() -> bytes:
    return m.message(b"1")


def bind_complete() -> bytes:
    return m.message(b"2")


def close_complete() -> bytes:
    return m.message(b"3")


def no_data() -> bytes:
    return m.message(b"n")


def empty_query() -> bytes:
    return m.message(b"I")


def portal_suspended() -> bytes:
    return m.message(b"s")


def parameter_description(*oids: int) -> bytes:
    return m.message(b"t", struct.pack(f"!h{len(oids)}I", len(oids), *oids))


def copy_in(columns: int = 1, form: int = 0) -> bytes:
    return m.message(b"G", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def copy_out(columns: int = 1, form: int = 0) -> bytes:
    return m.message(b"H", struct.pack(f"!bh{columns}h", form, columns, *[form] * columns))


def function_result(value: Cell) -> bytes:
    return m.message(b"V", _sized(value))


def error(text: str, code: str = "42601", severity: str = "ERROR") -> bytes:
    return m.error_response(code, text, severity=severity)


def notice(text: str, code: str = "00000", severity: str = "NOTICE") -> bytes:
    return m.report(b"N", severity, code, text)


def notification(channel: str, payload: str, pid: int = 7) -> bytes:
    return m.message(b"A", m.INT32.pack(pid), m.cstring(channel), m.cstring(payload))


def parameter_status(name: str, value: str) -> bytes:
    return m.parameter_status(name, value)


_CLIENT_NAMES = {
    "B": "Bind", "C": "Close", "d": "CopyData", "c": "CopyDone", "f": "CopyFail", "D": "Describe", "E": "Execute",
    "H": "Flush", "F": "FunctionCall", "P": "Parse", "Q": "Query", "S": "Sync", "X": "Terminate", "p": "Password",
}  # fmt: skip
_TARGET_NAMES = {
    "R": "Authentication", "K": "BackendKeyData", "2": "BindComplete", "3": "CloseComplete", "C": "CommandComplete",
    "d": "CopyData", "c": "CopyDone", "G": "CopyInResponse", "H": "CopyOutResponse", "D": "DataRow",
    "I": "EmptyQueryResponse", "E": "ErrorResponse", "V": "FunctionCallResponse", "n": "NoData", "N": "NoticeResponse",
    "A": "NotificationResponse", "t": "ParameterDescription", "S": "ParameterStatus", "1": "ParseComplete",
    "s": "PortalSuspended", "Z": "ReadyForQuery", "T": "RowDescription",
}  # fmt: skip


def split(data: bytes) -> list[tuple[bytes, bytes]]:
    """The (tag, body) pairs in `data`; a rest that is no whole message comes last, with an empty tag."""
    found: list[tuple[bytes, bytes]] = []
    pos = 0
    while len(data) - pos >= 5:
        after = pos + 1 + int.from_bytes(data[pos + 1 : pos + 5], "big")
        if not pos + 5 <= after <= len(data):
            break
        found.append((data[pos : pos + 1], data[pos + 5 : after]))
        pos = after
    return [*found, (b"", data[pos:])] if pos < len(data) else found


def show(author: Side, data: bytes) -> list[str]:
    """Messages that `author` made, for people, one a line."""
    names = _CLIENT_NAMES if author is Side.CLIENT else _TARGET_NAMES
    return [f"{names.get(tag.decode('latin-1'), repr(tag))} {body!r}" for tag, body in split(data)]
