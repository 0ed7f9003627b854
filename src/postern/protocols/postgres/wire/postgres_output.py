"""Responses with text outside of rows: errors, notices, notifications, settings, copied data."""

from __future__ import annotations

from postern.errors import ProtocolViolation
from postern.interception.events import Channel, Completed, CopyFormat, Fill, Output
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.framing import encode_length
from postern.protocols.postgres.wire import postgres_messages as m
from postern.protocols.postgres.wire.postgres_copies import Changed, CopiedColumns, change_lines, fill_holes
from postern.protocols.postgres.wire.postgres_types import BINARY, UNKNOWN
from postern.protocols.postgres.wire.postgres_values import change_cell

CHANNELS = {
    m.COPY_DATA: Channel.COPY,
    m.NOTICE_RESPONSE: Channel.NOTICE,
    m.ERROR_RESPONSE: Channel.ERROR,
    m.NOTIFICATION_RESPONSE: Channel.NOTIFICATION,
    m.FUNCTION_CALL_RESPONSE: Channel.FUNCTION,
    m.PARAMETER_STATUS: Channel.PARAMETER,
}
# Fields of errors and notices that can contain data; the others locate the error in the server's source.
_LABELS = {
    ord("S"): "severity",
    ord("V"): "severity",
    ord("C"): "code",
    ord("M"): "message",
    ord("D"): "detail",
    ord("H"): "hint",
    ord("P"): "position",
    ord("q"): "query",
    ord("W"): "context",
    ord("s"): "schema",
    ord("t"): "table",
    ord("c"): "column",
    ord("d"): "type",
    ord("n"): "constraint",
}
_MESSAGE = ord("M")
_ASIDE = frozenset({m.NOTICE_RESPONSE, m.NOTIFICATION_RESPONSE, m.PARAMETER_STATUS})
_COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_NULL = b"\xff\xff\xff\xff"

INSUFFICIENT_PRIVILEGE = "42501"
WARNING = "01000"


def refusal_response(refusal: Refuse, severity: str = "ERROR") -> bytes:
    """Encode the error for a refusal."""
    return m.error_response(INSUFFICIENT_PRIVILEGE, refusal.message, severity=severity, hint=refusal.hint)


def warning_response(warning: Warn) -> bytes:
    """Encode the notice for a warning."""
    return m.report(b"N", "WARNING", WARNING, warning.message, hint=warning.hint)


class PostgresText(Output):
    """One message whose body has text outside of rows. `aside`: it is not part of the response."""

    def __init__(self, exchange: int, tag: int, body: bytes, binary_copy: bool = False) -> None:
        self.exchange = exchange
        self.channel = CHANNELS[tag]
        self.aside = tag in _ASIDE
        self._tag = tag
        self._body = body
        self._binary_copy = binary_copy

    def texts(self) -> list[bytes]:
        if self.channel in (Channel.NOTICE, Channel.ERROR):
            return [value for _, value in m.parse_fields(self._body)]
        if self.channel is Channel.NOTIFICATION:
            return self._body[4:].split(b"\0")[:2]
        if self.channel is Channel.PARAMETER:
            return self._body.split(b"\0")[1:2]
        if self.channel is Channel.FUNCTION:
            return [self._body[4:]] if self._body[:4] != _NULL else []
        return [cell for cell in self._tuple() if cell is not None] if self._binary_copy else [self._body]

    @property
    def labels(self) -> tuple[str, ...]:
        if self.channel in (Channel.NOTICE, Channel.ERROR):
            return tuple(_LABELS.get(key, "") for key, _ in m.parse_fields(self._body))
        return (self._body.split(b"\0")[0].decode("ascii", "replace"),) if self.channel is Channel.PARAMETER else ()

    @property
    def rows(self) -> int:
        """Return the number of rows: a message of a binary copy is one, except for its trailer."""
        return 1 if self._binary_copy and self.channel is Channel.COPY and self._tuple() else 0

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != len(self.texts()):
            raise ValueError(f"{len(texts)} texts given for a message that holds {len(self.texts())}")
        if self.channel in (Channel.NOTICE, Channel.ERROR):
            keys = [key for key, _ in m.parse_fields(self._body)]
            # An empty text stands for an omitted field.
            left = [(key, text) for key, text in zip(keys, texts, strict=True) if text or key == _MESSAGE]
            self._body = b"".join([bytes((key,)) + m.cstring(text) for key, text in left]) + b"\0"
        elif self.channel is Channel.NOTIFICATION:
            self._body = self._body[:4] + b"".join([m.cstring(text) for text in texts])
        elif self.channel is Channel.PARAMETER:
            self._body = self._body.split(b"\0")[0] + b"\0" + m.cstring(texts[0])
        elif self.channel is Channel.FUNCTION:
            if texts:
                self._body = m.INT32.pack(len(texts[0])) + texts[0]
        elif self._binary_copy:
            self._replace_tuple(texts)
        else:
            (self._body,) = texts

    def _replace_tuple(self, texts: list[bytes]) -> None:
        out = [self._body[: self._tuple_start() + 2]]
        at = 0
        for cell in self._tuple():
            if cell is None:
                out.append(_NULL)
                continue
            out.append(m.INT32.pack(len(texts[at])))
            out.append(texts[at])
            at += 1
        self._body = b"".join(out)

    def _tuple(self) -> list[bytes | None]:
        """Return the cells of one tuple in binary COPY format (SQL COPY, "Binary Format"); the trailer has none."""
        body = self._body
        pos = self._tuple_start()
        (count,) = m.INT16.unpack_from(body, pos)
        pos += 2
        cells: list[bytes | None] = []
        for _ in range(count):
            (size,) = m.INT32.unpack_from(body, pos)
            pos += 4
            cells.append(body[pos : pos + size] if size >= 0 else None)
            pos += max(size, 0)
        if pos != len(body):
            raise ProtocolViolation("a tuple of a binary copy does not fit its length fields")
        return cells

    def change(self, form: CopyFormat, columns: CopiedColumns) -> list[tuple[int, int]]:
        """Change a tuple of a binary copy, which contains no types: a cell of unknown type becomes NULL."""
        if not self._binary_copy or self.channel is not Channel.COPY or form.kind != "binary":
            raise ValueError("the copy is not in the requested format")
        cells = self._tuple()
        counts = [(0, 0)] * len(columns)
        if not cells:
            return counts
        if len(cells) != len(columns):
            raise ValueError(f"a copied tuple has {len(cells)} columns, not {len(columns)}")
        for place, (cell, column) in enumerate(zip(cells, columns, strict=True)):
            if cell is None or column is None:
                continue
            # The type of a computed value is unknown. NULL is valid for all types.
            new = None if isinstance(column[1], Fill) else change_cell(column[0] or UNKNOWN, BINARY, cell, column[1])
            if new != cell:
                counts[place] = (1, len(cell))
                cells[place] = new
        head = self._body[: self._tuple_start() + 2]
        self._body = head + b"".join([_NULL if cell is None else m.INT32.pack(len(cell)) + cell for cell in cells])
        return counts

    def _tuple_start(self) -> int:
        """Return the offset of the first tuple. The first message of a copy begins with a header: signature, flags,
        length of an extension."""
        body = self._body
        if not body.startswith(_COPY_SIGNATURE):
            return 0
        return 19 + int.from_bytes(body[15:19], "big")

    def become(self, refusal: Refuse) -> None:
        """Replace the text by a refusal; an error keeps its severity."""
        severity = self.severity if self._tag == m.ERROR_RESPONSE else "ERROR"
        self._tag = m.ERROR_RESPONSE
        self._body = refusal_response(refusal, severity)[5:]

    @property
    def severity(self) -> str:
        return m.parse_report(self._body).severity

    def make_completed_event(self) -> Completed:
        """Return the completion event of an ErrorResponse with its current text."""
        report = m.parse_report(self._body)
        return Completed(self.exchange, error_code=report.code, error=report.text)

    def encode(self) -> bytes:
        return m.message(bytes((self._tag,)), self._body)


class CopiedLines(Output):
    """All CopyData messages of one read, of a copy in text or CSV format: the backend sends one line in each. `first`:
    they begin the copy. `is_unread`: the client's encoding does not allow finding delimiters."""

    def __init__(self, exchange: int, lines: list[bytes], first: bool = False, is_unread: bool = False) -> None:
        self.exchange = exchange
        self.channel = Channel.COPY
        self._lines = lines
        self._first = first
        self._is_unread = is_unread
        self._count = len(lines)
        self._head: list[bytes] = []  # lines before those in `_changed`
        self._changed: Changed | None = None  # the changed columns, until `texts` is called
        self._others: list[list[bytes]] = []  # the changed fields of each line

    @property
    def rows(self) -> int:
        return self._count

    def texts(self) -> list[bytes]:
        """Return the lines, with NUL for each field that `change` has masked, until `replace`. They contain nothing of
        the target's masked data."""
        if self._changed is not None:
            lines, others = self._changed.with_holes()
            self._lines = [*self._head, *lines]
            self._others = [*([[]] * len(self._head)), *others]
            self._changed = None
        return self._lines

    def replace(self, texts: list[bytes]) -> None:
        if len(texts) != self._count:
            raise ValueError(f"{len(texts)} texts given for {self._count} lines")
        self.texts()  # builds what the holes stand for
        self._lines = self._fill_holes(texts)
        self._others = []

    def _fill_holes(self, lines: list[bytes]) -> list[bytes]:
        if not self._others:
            return lines
        return [fill_holes(line, others) for line, others in zip(lines, self._others, strict=True)]

    def change(self, form: CopyFormat, columns: CopiedColumns) -> list[tuple[int, int]]:
        if form.kind == "binary" or (not form.encoding and self._is_unread):
            raise ValueError("the fields of this copy format cannot be separated")
        headers = 1 if form.header and self._first else 0
        lines = self.texts()
        changed = change_lines(lines[headers:], form, columns)
        self._head, self._changed = lines[:headers], changed
        return changed.count_changes()

    def encode(self) -> bytes:
        out: list[bytes] = []
        lines = self._fill_holes(self._lines) if self._changed is None else [*self._head, *self._changed.render_lines()]
        for line in lines:
            out.append(b"d")
            out.append(encode_length(len(line) + 4))
            out.append(line)
        return b"".join(out)
