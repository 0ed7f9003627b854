"""The frames of a command: one byte kind, four bytes length of the payload (big-endian), the payload.

client → agent   START       the program can start; nothing runs before this
                 STDIN       bytes of its standard input, or typed characters
                 STDIN_END   end of input
                 RESIZE      u16 columns, u16 rows of the terminal
                 SIGNAL      a name of SIGNALS
agent → client   STDOUT      bytes of standard output; all output when there is a terminal
                 STDERR      bytes of standard error, and messages of the gateway
                 EXIT        u32 exit code, name of the signal that ended it (or nothing); the last frame
                 OUTPUT_END  end of output while the program may continue: an SSH channel that is half-closed.
                             EXIT implies it, so it is optional
gateway → client WAITS       1 while an approval is pending, 0 once it is given: nothing runs until then
browser → API    CREDIT      u32 bytes of STDOUT and STDERR that the browser has processed: the API's process sends no
                             more than BROWSER_WINDOW ahead, since a WebSocket of a browser has no back-pressure
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from postern.errors import ProtocolViolation

START: Final = 1
STDIN: Final = 2
STDIN_END: Final = 3
RESIZE: Final = 4
SIGNAL: Final = 5
CREDIT: Final = 6
STDOUT: Final = 17
STDERR: Final = 18
EXIT: Final = 19
WAITS: Final = 20
OUTPUT_END: Final = 21

HEADER: Final = 5
MAX_PAYLOAD: Final = 64 * 1024  # maximum bytes that a sender puts into one frame
MAX_FRAME: Final = 1 << 20  # maximum bytes that a reader accepts
BROWSER_WINDOW: Final = 256 * 1024  # bytes of output that a browser has not processed yet

SIGNALS: Final = frozenset({"HUP", "INT", "QUIT", "TERM", "TSTP", "CONT", "USR1", "USR2", "KILL"})
# Exit codes of a shell for a program that a signal ended, and for one that could not be run.
SIGNALLED: Final = 128
NOT_RUN: Final = 126
NOT_FOUND: Final = 127
# Exit codes when the gateway ends the program or refuses its input.
ENDED: Final = 255
REFUSED: Final = 1

_SIZE: Final = struct.Struct(">HH")
_CODE: Final = struct.Struct(">I")


class Exit(NamedTuple):
    """Exit status: `code` as a shell reports it, 0 to 255; `signal` without SIG, or empty."""

    code: int
    signal: str


def frame(kind: int, payload: bytes = b"") -> bytes:
    return bytes((kind,)) + len(payload).to_bytes(4, "big") + payload


def frames(kind: int, data: bytes) -> bytes:
    """Encode bytes as as many frames as needed; none for no bytes."""
    if len(data) <= MAX_PAYLOAD:
        return frame(kind, data) if data else b""
    return b"".join([frame(kind, data[at : at + MAX_PAYLOAD]) for at in range(0, len(data), MAX_PAYLOAD)])


START_FRAME: Final = frame(START)
STDIN_END_FRAME: Final = frame(STDIN_END)
OUTPUT_END_FRAME: Final = frame(OUTPUT_END)


def waits(still: bool) -> bytes:
    return frame(WAITS, bytes((still,)))


def resize(columns: int, rows: int) -> bytes:
    return frame(RESIZE, _SIZE.pack(columns, rows))


def read_resize(payload: bytes) -> tuple[int, int]:
    """Parse columns and rows. Raises ProtocolViolation."""
    if len(payload) != _SIZE.size:
        raise ProtocolViolation("a RESIZE frame must have two numbers: columns and rows")
    columns, rows = _SIZE.unpack(payload)
    return columns, rows


def signal(name: str) -> bytes:
    return frame(SIGNAL, name.encode())


def read_signal(payload: bytes) -> str:
    """Parse a signal's name. Raises ProtocolViolation for one that is not supported."""
    name = payload.decode("ascii", "replace")
    if name not in SIGNALS:
        raise ProtocolViolation(f"signal {name[:20]!r} is not supported; use one of {', '.join(sorted(SIGNALS))}")
    return name


def credit(size: int) -> bytes:
    return frame(CREDIT, _CODE.pack(size))


def read_credit(payload: bytes) -> int:
    """Parse a number of bytes. Raises ProtocolViolation."""
    if len(payload) != _CODE.size:
        raise ProtocolViolation("a CREDIT frame must have one number: the bytes that were processed")
    return int(_CODE.unpack(payload)[0])


def exit_frame(code: int, name: str = "") -> bytes:
    return frame(EXIT, _CODE.pack(code) + name.encode())


def read_exit(payload: bytes) -> Exit:
    """Parse an EXIT frame. Raises ProtocolViolation."""
    if len(payload) < _CODE.size:
        raise ProtocolViolation("an EXIT frame has no exit code")
    (code,) = _CODE.unpack_from(payload)
    return Exit(code & 0xFF, payload[_CODE.size :].decode("ascii", "replace")[:20])


class TerminalFrameReader:
    """Splits a stream into frames. Raises ProtocolViolation for one that is too long; then it is not usable any
    more."""

    def __init__(self) -> None:
        self._rest = b""
        self._taken = 0  # bytes so far

    @property
    def waiting(self) -> int:
        """Return the number of bytes of an incomplete frame."""
        return len(self._rest)

    @property
    def position(self) -> str:
        """Return how far the stream was parsed, for the log."""
        return f"a frame up to byte {self._taken - len(self._rest)}"

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return (kind, payload) of each frame that `data` completes."""
        self._taken += len(data)
        if self._rest:
            data = self._rest + data
        complete_frames: list[tuple[int, bytes]] = []
        pos, end = 0, len(data)
        while end - pos >= HEADER:
            length = int.from_bytes(data[pos + 1 : pos + HEADER], "big")
            if length > MAX_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes, where at most {MAX_FRAME} are allowed")
            if end - pos < HEADER + length:
                break
            complete_frames.append((data[pos], data[pos + HEADER : pos + HEADER + length]))
            pos += HEADER + length
        self._rest = data[pos:] if pos else data
        return complete_frames
