"""What the target answers: matched with the ledger, cut into pieces for inspection and recording.

One pass over each read. Messages that nobody wants stay part of one run of bytes; a run ends where a
message must be judged, replaced, swallowed or preceded by a refusal of ours. DataRow and CopyData
messages that nobody wants are not even waited for: their rest passes as it comes.

    head slot       may be answered by
    QUERY           T D C I G H E, then Z
    PARSE BIND CLOSE 1 2 3
    DESCRIBE        t, then T or n
    EXECUTE         D, then C s I E; G or H for COPY
    SYNC            Z
    FUNCTION        V, then Z
    POISON          E (ours, swallowed)
    REFUSED         nothing: we speak
    any, or none    N A S (asynchronous)
"""

from __future__ import annotations

import struct
from collections import deque

from postern.errors import ProtocolViolation
from postern.interception.events import Channel, Completed, Output
from postern.protocols.base import Piece, Wants
from postern.protocols.framing import Intake, uint32
from postern.protocols.postgres import messages as m
from postern.protocols.postgres.ledger import (
    BIND,
    CLOSE,
    DESCRIBE,
    EXECUTE,
    FUNCTION,
    PARSE,
    POISON,
    QUERY,
    REFUSED,
    SYNC,
    Ledger,
    Slot,
    codec,
)
from postern.protocols.postgres.rows import DataRows, Layout

_STREAMED = frozenset({m.DATA_ROW, m.COPY_DATA, m.FUNCTION_CALL_RESPONSE})
_POPS = {m.PARSE_COMPLETE: PARSE, m.BIND_COMPLETE: BIND, m.CLOSE_COMPLETE: CLOSE, m.PORTAL_SUSPENDED: EXECUTE}
_CHANNELS = {
    m.COPY_DATA: Channel.COPY,
    m.NOTICE_RESPONSE: Channel.NOTICE,
    m.ERROR_RESPONSE: Channel.ERROR,
    m.NOTIFICATION_RESPONSE: Channel.NOTIFICATION,
    m.FUNCTION_CALL_RESPONSE: Channel.FUNCTION,
}
_NO_COLUMNS = b"\0\0"
_COPY_BINARY_HEADER = b"PGCOPY\n\xff\r\n\0"


class Text(Output):
    """One message whose body holds text outside of rows. `aside`: it is not part of the answer."""

    def __init__(self, exchange: int, tag: int, body: bytes, binary_copy: bool = False) -> None:
        self.exchange = exchange
        self.channel = _CHANNELS[tag]
        self.aside = tag in (m.NOTICE_RESPONSE, m.NOTIFICATION_RESPONSE)
        self._tag = tag
        self._body = body
        self._binary_copy = binary_copy and not body.startswith(_COPY_BINARY_HEADER)

    def texts(self) -> list[bytes]:
        if self.channel in (Channel.NOTICE, Channel.ERROR):
            return [value for _, value in m.parse_fields(self._body)]
        if self.channel is Channel.NOTIFICATION:
            return self._body[4:].split(b"\0")[:2]
        if self.channel is Channel.FUNCTION:
            return [self._body[4:]]
        return [cell for cell in self._tuple() if cell is not None] if self._binary_copy else [self._body]

    def replace(self, texts: list[bytes]) -> None:
        if self.channel in (Channel.NOTICE, Channel.ERROR):
            keys = [key for key, _ in m.parse_fields(self._body)]
            pairs = zip(keys, texts, strict=True)
            self._body = b"".join(bytes((key,)) + text + b"\0" for key, text in pairs) + b"\0"
        elif self.channel is Channel.NOTIFICATION:
            self._body = self._body[:4] + b"".join(text + b"\0" for text in texts)
        elif self.channel is Channel.FUNCTION:
            self._body = m.INT32.pack(len(texts[0])) + texts[0]
        elif self._binary_copy:
            fresh = iter(texts)
            cells = [None if cell is None else next(fresh) for cell in self._tuple()]
            sized = (b"\xff\xff\xff\xff" if cell is None else m.INT32.pack(len(cell)) + cell for cell in cells)
            self._body = self._body[:2] + b"".join(sized)
        else:
            (self._body,) = texts

    def _tuple(self) -> list[bytes | None]:
        """The cells of one tuple in binary COPY format (SQL COPY, "Binary Format"); the trailer has none."""
        (count,) = m.INT16.unpack_from(self._body, 0)
        cells: list[bytes | None] = []
        pos = 2
        for _ in range(count):
            (size,) = m.INT32.unpack_from(self._body, pos)
            pos += 4
            cells.append(self._body[pos : pos + size] if size >= 0 else None)
            pos += max(size, 0)
        return cells

    @property
    def severity(self) -> str:
        return m.parse_report(self._body).severity

    def completed(self) -> Completed:
        """What an ErrorResponse, as it stands now, says of its exchange."""
        report = m.parse_report(self._body)
        return Completed(self.exchange, error_code=report.code, error=report.text)

    def encode(self) -> bytes:
        return m.message(bytes((self._tag,)), self._body)


class Backend:
    """The target's half of the wire."""

    def __init__(self, ledger: Ledger, wants: Wants, max_message: int) -> None:
        self.ledger = ledger
        self.wants = wants
        self.max_message = max_message
        self.fatal = False  # the target has told the client a fatal error
        self.cutting = False  # the rest of this answer is swallowed
        self._intake = Intake()
        self._passing = 0
        self._swallowing = False  # … and so is the message that is passing
        self._described: bytes | None = None  # the RowDescription of a simple query's result under way
        self._layout: Layout | None = None
        self._layout_of: Slot | None = None
        self._copy_binary = False
        self._pieces: deque[Piece] = deque()
        # An error that is being judged: what is reported of it is what the client was shown.
        self._judged: Text | None = None

    def feed(self, data: bytes) -> None:
        self._intake.feed(data)

    def poll(self) -> list[Piece]:
        intake = self._intake
        buf, pos = intake.buf, intake.pos
        end = len(buf)
        pieces: list[Piece] = []
        slots = self.ledger.slots
        if self._judged is not None:
            pieces.append(self._judged.completed())
            self._judged = None
        if slots and slots[0].kind == REFUSED:
            self._speak(pieces)
        start = pos
        if self._passing:
            pos = min(pos + self._passing, end)
            self._passing -= pos - start
            if self._swallowing:
                start = pos
        while end - pos >= 5:
            tag = buf[pos]
            length = uint32(buf, pos + 1)
            if length < 4 or length > 0x7FFFFFFF:
                raise ProtocolViolation(f"the target sent a message of type {tag:#04x} and length {length}")
            after = pos + 1 + length
            if tag in _STREAMED and not self._wanted(tag):
                if after > end:
                    self._passing = after - end
                    self._swallowing = self.cutting
                    after = end
                if self.cutting:
                    start = _flush(pieces, buf, start, pos, after)
                pos = after
                continue
            if after > end:
                if length > self.max_message:
                    start = self._too_large(tag, length, pieces, buf, start, pos)
                    continue
                break
            if tag in _CHANNELS or tag == m.DATA_ROW:
                event, after, shown = self._event(tag, buf, pos, after, end)
                if event is not None:
                    _flush(pieces, buf, start, pos, after)
                    pieces.extend(self._pieces)
                    self._pieces.clear()
                    pieces.append(event)
                    intake.pos = after
                    return pieces
            else:
                shown = self._control(tag, buf, pos + 5, after)
            if self._pieces or not shown or (slots and slots[0].kind == REFUSED):
                # Something must be said or left out between this message and the next one.
                start = _flush(pieces, buf, start, after if shown else pos, after)
                pieces.extend(self._pieces)
                self._pieces.clear()
                self._speak(pieces)
            pos = after
        _flush(pieces, buf, start, pos, pos)
        intake.pos = pos
        if end - pos >= 5 and not self._passing:
            intake.wait(1 + uint32(buf, pos + 1))
        return pieces

    def _too_large(self, tag: int, length: int, pieces: list[Piece], buf: bytes, start: int, pos: int) -> int:
        """A value that cannot be inspected whole is not shown: an error in its place, the rest swallowed."""
        if tag not in _STREAMED:
            raise ProtocolViolation(f"the target sent a message of type {tag:#04x} and length {length}")
        text = f"a value of {length} bytes is larger than the {self.max_message} bytes that can be inspected"
        hint = "Ask for less of it at once, or ask an administrator to raise POSTERN_MAX_STATEMENT."
        start = _flush(pieces, buf, start, pos, pos)
        pieces.append(m.error_response("54000", text, hint=hint))
        self.cutting = True
        return start

    def _wanted(self, tag: int) -> bool:
        if self.cutting:
            return False
        return self.wants.rows if tag == m.DATA_ROW else self.wants.output

    def _speak(self, pieces: list[Piece]) -> None:
        """Refusals whose turn has come."""
        ledger = self.ledger
        slots = ledger.slots
        while slots and slots[0].kind == REFUSED:
            slot = slots.popleft()
            if slot.data:
                pieces.append(slot.data)
            if slot.ready:
                pieces.append(m.ready_for_query(ledger.status))

    def _event(
        self, tag: int, buf: bytes, pos: int, after: int, end: int
    ) -> tuple[Output | DataRows | None, int, bool]:
        """A message that holds text: the event to judge if it is wanted, where it ends, whether it is shown."""
        slots = self.ledger.slots
        exchange = slots[0].exchange if slots else 0
        if tag == m.DATA_ROW:
            return self._rows(buf, pos, end)
        text = Text(exchange, tag, buf[pos + 5 : after], self._copy_binary)
        judged = self.wants.output and not self.cutting
        if tag == m.ERROR_RESPONSE:
            if not self._failed(text):
                return None, after, False
            if judged:
                self._judged = text
            else:
                self._pieces.append(text.completed())
                return None, after, not self.cutting
        return text if judged else None, after, True

    def _rows(self, buf: bytes, pos: int, end: int) -> tuple[DataRows, int, bool]:
        """All complete DataRows from `pos` on."""
        slot = self.ledger.slots[0] if self.ledger.slots else None
        if slot is None or slot.kind not in (QUERY, EXECUTE):
            raise ProtocolViolation("the target sent a row that nobody asked for")
        if self._layout is None or self._layout_of is not slot:
            if slot.portal is not None:
                fields = slot.portal.known_columns()
            else:
                fields = None if self._described is None else m.parse_row_description(self._described)
            if fields is None:
                raise ProtocolViolation("the target sent rows without a description")
            self._layout, self._layout_of = Layout(fields), slot
        first, count = pos, 0
        while end - pos >= 5 and buf[pos] == m.DATA_ROW:
            after = pos + 1 + uint32(buf, pos + 1)
            if after > end:
                break
            pos = after
            count += 1
        return DataRows(slot.exchange, self._layout, buf[first:pos], count), pos, True

    def _failed(self, text: Text) -> bool:
        """An ErrorResponse: what it ends. False when it answers our own poison."""
        ledger = self.ledger
        slots = ledger.slots
        ledger.copy_in = False
        if slots and slots[0].kind == POISON:
            slots.popleft()
            return False
        if text.severity in ("FATAL", "PANIC"):
            self.fatal = True
        ledger.drop_until_sync()
        return True

    def _control(self, tag: int, buf: bytes, pos: int, end: int) -> bool:
        """A message without text of the target's data. False when the client must not see it."""
        ledger = self.ledger
        slots = ledger.slots
        head = slots[0] if slots else None
        shown = not self.cutting
        if tag == m.READY_FOR_QUERY:
            self._ready(buf[pos:end], head)
            return True
        if tag == m.PARAMETER_STATUS:
            self._parameter(buf, pos, end)
            return True
        if head is None or tag == m.COPY_BOTH_RESPONSE:
            raise ProtocolViolation(f"the target sent a message of type {tag:#04x} that answers nothing")
        if tag == m.COMMAND_COMPLETE or tag == m.EMPTY_QUERY_RESPONSE:
            text = buf[pos : end - 1].decode("utf-8", "replace") if tag == m.COMMAND_COMPLETE else ""
            self._pieces.append(Completed(head.exchange, text, m.rows_of(text)))
            if head.kind == EXECUTE:
                slots.popleft()
        elif tag == m.BIND_COMPLETE or tag == m.PARSE_COMPLETE or tag == m.CLOSE_COMPLETE or tag == m.PORTAL_SUSPENDED:
            if head.kind != _POPS[tag]:
                raise ProtocolViolation(f"the target sent a message of type {tag:#04x} out of its turn")
            if tag == m.PORTAL_SUSPENDED:
                self._pieces.append(Completed(head.exchange, "PORTAL SUSPENDED"))
            ledger.complete(slots.popleft())
        elif tag == m.ROW_DESCRIPTION:
            shown = self._describe(head, buf[pos:end]) and shown
        elif tag == m.NO_DATA:
            shown = self._describe(head, _NO_COLUMNS) and shown
        elif tag == m.PARAMETER_DESCRIPTION:
            if head.statement is not None:
                count = int.from_bytes(buf[pos : pos + 2], "big")
                head.statement.types = struct.unpack_from(f"!{count}I", buf, pos + 2)
        elif tag == m.COPY_IN_RESPONSE:
            ledger.copy_in = True
            if head.kind == EXECUTE and len(slots) > 1 and slots[1].kind == SYNC:
                del slots[1]  # the backend reads that Sync as part of the copy, and ignores it
        elif tag == m.COPY_OUT_RESPONSE:
            self._copy_binary = end > pos and buf[pos] == 1
        return shown

    def _parameter(self, buf: bytes, pos: int, end: int) -> None:
        name, pos = m.read_cstring(buf, pos, end)
        if name == b"client_encoding":
            self.ledger.encoding = codec(buf[pos : end - 1].decode("ascii", "replace"))

    def _describe(self, head: Slot, body: bytes) -> bool:
        """Keeps the description for whoever will need it; most results are never looked at."""
        if head.kind == QUERY:
            self._described, self._layout = body, None
            return True
        if head.kind != DESCRIBE:
            raise ProtocolViolation("the target described a result out of its turn")
        if head.portal is not None:
            head.portal.described = body
        elif head.statement is not None:
            head.statement.described = body
        self.ledger.slots.popleft()
        return not head.hidden

    def _ready(self, status: bytes, head: Slot | None) -> None:
        ledger = self.ledger
        if head is None or head.kind not in (QUERY, SYNC, FUNCTION):
            raise ProtocolViolation("the target says it is ready out of its turn")
        ledger.slots.popleft()
        ledger.status = status
        ledger.copy_in = False
        self.cutting = False
        if head.kind == FUNCTION:
            self._pieces.append(Completed(head.exchange, tag="FUNCTION CALL"))
        if status == b"I" and not ledger.slots:
            ledger.portals.clear()


def _flush(pieces: list[Piece], buf: bytes, start: int, stop: int, resume: int) -> int:
    """Ends a run of shown bytes at `stop`; the next one starts at `resume`."""
    if stop > start:
        pieces.append(buf[start:stop])
    return resume
