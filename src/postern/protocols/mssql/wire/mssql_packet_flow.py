"""Packets of the target on their way to the client.

Packets are stripped of their headers, and the tokens inside are read as one stream. A packet is forwarded as it came,
once all tokens that begin in it are read and none was changed. Where a token is changed, dropped or preceded by one of
ours, what is around it is laid into new packets.

    packets ──▶ `_buf` … sent │ judged or skipped │ to be read …
                            `_sent`             `_pos`

Everything between `_sent` and `_pos` has been read, and goes out with the next complete packet.
"""

from __future__ import annotations

from mypy_extensions import i64

from postern.errors import ProtocolViolation
from postern.protocols.framing import Intake
from postern.protocols.mssql.wire import mssql_packets as p
from postern.protocols.wire_base import Piece, Wire


class MssqlPacketFlow(Wire):
    """The buffer of the target's message, and the packets that carry it on. `packet_size` is that of new ones."""

    def __init__(self, packet_size: int) -> None:
        self.packet_size = packet_size
        self.cutting = False  # the rest of this response is discarded
        self._intake = Intake()
        self._buf = b""
        self._pos: i64 = 0
        self._sent: i64 = 0
        self._need: i64 = 0  # bytes of `_buf` without which the token at `_pos` is incomplete
        self._packets: list[bytes] = []  # not forwarded yet
        self._ends: list[int] = []  # where their payloads end in `_buf`
        self._is_last = False  # the last of these ends the message
        self._has_begun = False  # the target's message has begun
        self._number: i64 = 1  # of the next packet to the client
        self._is_renumbered = False  # the client has got other packets than the target sent
        self._spid = b"\0\0"

    def _take_packets(self) -> bool:
        """Add all packets of the message that have arrived to the buffer. Return False if there is none."""
        intake = self._intake
        buf = intake.buf
        pos: i64 = intake.pos
        end: i64 = len(buf)
        parts: list[bytes] = []
        total: i64 = len(self._buf)
        while not self._is_last and end - pos >= p.HEAD:
            size = p.packet_size(buf, pos)
            if end - pos < size:
                intake.pos = pos
                if not parts:
                    intake.wait(size)
                break
            if buf[pos] != p.REPLY:
                raise ProtocolViolation(f"the target sent a packet of type {buf[pos]:#04x}")
            self._is_last = bool(buf[pos + 1] & p.EOM)
            packet = buf[pos : pos + size]
            parts.append(packet[p.HEAD :])
            total += size - p.HEAD
            self._packets.append(packet)
            self._ends.append(total)
            pos += size
            intake.pos = pos
        if not parts:
            return False
        self._spid = self._packets[-1][4:6]
        self._buf = b"".join([self._buf, *parts]) if self._buf or len(parts) > 1 else parts[0]
        self._has_begun = True
        return True

    def _flush_packets(self, pieces: list[Piece]) -> None:
        """Forward the packets all of whose tokens were read."""
        count = 0
        for end in self._ends:
            if end > self._pos:
                break
            count += 1
        if count:
            self._emit(pieces, self._ends[count - 1])
        self._trim()

    def _emit(self, pieces: list[Piece], upto: i64) -> None:
        """Forward the tokens up to there. Whole packets pass as they came."""
        buf = self._buf
        while self._packets:
            packet = self._packets[0]
            end: i64 = self._ends[0]
            stop: i64 = min(end, upto)
            if stop < end and stop <= self._sent:
                break
            is_whole = stop == end and self._sent == end - (len(packet) - p.HEAD)
            if not self.cutting:
                if is_whole:
                    pieces.append(self._number_packet(packet))
                elif stop > self._sent or packet[1] & p.EOM:
                    status = packet[1] & p.EOM if stop == end else 0
                    pieces.append(self.frame(buf[self._sent : stop], status))
            self._sent = max(stop, self._sent)
            if stop < end:
                break
            del self._packets[0], self._ends[0]

    def _trim(self) -> None:
        """Forget the part of the buffer that was forwarded."""
        sent = self._sent
        if not sent:
            return
        self._ends = [end - int(sent) for end in self._ends]
        self._buf = self._buf[sent:]
        self._pos -= sent
        self._need = max(0, self._need - sent)
        self._sent = 0

    def _number_packet(self, packet: bytes) -> bytes:
        number = int(self._number) & 0xFF
        self._number += 1
        if not self._is_renumbered or packet[6] == number:
            return packet
        return packet[:6] + bytes((number,)) + packet[7:]

    def frame(self, tokens: bytes, status: int = 0) -> bytes:
        """Lay tokens into packets for the client. `status` is EOM if they end the message."""
        self._is_renumbered = True
        room = self.packet_size - p.HEAD
        parts: list[bytes] = []
        start = 0
        while True:
            part = tokens[start : start + room]
            start += room
            is_last = start >= len(tokens)
            parts.append(p.packet(p.REPLY, part, status if is_last else 0, int(self._number), self._spid))
            self._number += 1
            if is_last:
                return b"".join(parts)

    def _start_message(self) -> None:
        """The client's message has ended."""
        self._number = 1
        self._is_renumbered = False
