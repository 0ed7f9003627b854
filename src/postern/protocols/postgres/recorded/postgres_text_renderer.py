"""Rendering recorded bytes as the client's text, in the plain form of `psql -A -F TAB`."""

from __future__ import annotations

from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_types import readable

# A longer message was streamed in parts; its text is left out.
_LONGEST = 16 << 20


class PostgresTextRenderer:
    """A `Renderer`: `feed` takes the recorded stream in chunks of any size and returns ("o" or "e", text) pieces."""

    def __init__(self) -> None:
        self._rest = b""
        self._skip = 0
        self._fields: tuple[m.PostgresField, ...] = ()
        self._described = False

    def feed(self, data: bytes) -> list[tuple[str, bytes]]:
        if self._skip:
            skipped = min(self._skip, len(data))
            self._skip -= skipped
            data = data[skipped:]
        data = self._rest + data
        pieces: list[tuple[str, bytes]] = []
        pos = 0
        while len(data) - pos >= 5:
            length = int.from_bytes(data[pos + 1 : pos + 5], "big")
            after = pos + 1 + length
            if after > len(data):
                if length > _LONGEST:
                    pieces.append(("o", b"[a value of %d bytes]\n" % length))
                    self._skip = after - len(data)
                    pos = len(data)
                break
            piece = self._piece(data[pos], data[pos + 5 : after])
            if piece is not None:
                pieces.append(piece)
            pos = after
        self._rest = data[pos:]
        return _join_pieces(pieces)

    def rest(self) -> list[tuple[str, bytes]]:
        """Return the text of an incomplete row or line."""
        data, self._rest, self._skip = self._rest, b"", 0
        if data[:1] == b"D":
            return [("o", b"\t".join(self._cells(data[5:])) + b"\n")]
        return [("o", data[5:])] if data[:1] == b"d" else []

    def _piece(self, tag: int, body: bytes) -> tuple[str, bytes] | None:
        if tag == m.ROW_DESCRIPTION:
            self._fields = m.parse_row_description(body)
            return "o", b"\t".join(field.name.encode() for field in self._fields) + b"\n"
        if tag == m.DATA_ROW:
            return "o", b"\t".join(self._cells(body)) + b"\n"
        if tag == m.COPY_DATA:
            return "o", body
        if tag == m.COMMAND_COMPLETE:
            self._fields = ()
            return "o", body.rstrip(b"\0") + b"\n"
        if tag in (m.ERROR_RESPONSE, m.NOTICE_RESPONSE):
            return "e", _report(m.parse_report(body))
        if tag == m.NOTIFICATION_RESPONSE:
            return "o", b"NOTIFY " + b" ".join(body[4:].split(b"\0")[:2]) + b"\n"
        if tag == m.FUNCTION_CALL_RESPONSE:
            return "o", readable(body[4:], 0) + b"\n"
        return None

    def _cells(self, body: bytes) -> list[bytes]:
        """Return the cells of a row. A truncated row has those that arrived, the last one in part."""
        count = m.INT16.unpack_from(body, 0)[0] if len(body) >= 2 else 0
        cells: list[bytes] = []
        pos = 2
        for index in range(count):
            if len(body) < pos + 4:
                break
            (size,) = m.INT32.unpack_from(body, pos)
            pos += 4
            if size < 0:
                cells.append(b"")
                continue
            cell = body[pos : pos + size]
            pos += size
            field = self._fields[index] if index < len(self._fields) else None
            # The description may be missing, if the statement was described earlier: show each cell as it is.
            binary = (field is None or field.format == 1) and len(cell) == size
            cells.append(_plain(readable(cell, field.oid if field else 0) if binary else cell))
        return cells


def _plain(cell: bytes) -> bytes:
    """Escape a cell as COPY's text format does: one line, one field."""
    if b"\t" not in cell and b"\n" not in cell and b"\\" not in cell and b"\r" not in cell:
        return cell
    for raw, escaped in ((b"\\", b"\\\\"), (b"\t", b"\\t"), (b"\n", b"\\n"), (b"\r", b"\\r")):
        cell = cell.replace(raw, escaped)
    return cell


def _report(report: m.ErrorFields) -> bytes:
    lines = [f"{report.severity}: {report.text} ({report.code})"]
    if report.detail:
        lines.append(f"DETAIL: {report.detail}")
    if report.hint:
        lines.append(f"HINT: {report.hint}")
    return ("\n".join(lines) + "\n").encode()


def _join_pieces(pieces: list[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Join adjacent pieces of the same kind."""
    joined: list[tuple[str, list[bytes]]] = []
    for kind, text in pieces:
        if joined and joined[-1][0] == kind:
            joined[-1][1].append(text)
        else:
            joined.append((kind, [text]))
    return [(kind, b"".join(texts)) for kind, texts in joined]
