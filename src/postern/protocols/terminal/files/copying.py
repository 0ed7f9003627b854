r"""The steady state of a link to a program that copies files by itself: `scp -t`, `scp -f`, `rsync --server`.

The recording has the bytes per direction, and not the content. For scp it also has each file with name, size and hash,
and each file that the client sends is evaluated before its first byte:

    source ─ "C0644 12 name\n" ─▶ sink     (T: times, D and E: a directory begins and ends)
           ◀─ "\0" ──────────────          "\1" or "\2", text, "\n": the sink declines it
           ─ 12 bytes, "\0" ─────▶          "\1", text, "\n": the source failed
           ◀─ "\0" ──────────────

Such a file cannot be masked. If rules inspect output, a program that would send files to the client is not started.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Operation, Resized
from postern.interception.verdicts import Refuse
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files.commands import copies, program
from postern.protocols.terminal.files.file_hashing import FileHash
from postern.protocols.terminal.files.file_wire import CANNOT_MASK, FileWire, StartRequest
from postern.protocols.terminal.program_wire import ENDED, RUNNING
from postern.protocols.wire_base import Request, UnrecordedOutput

MOST_LINE: Final = 16 * 1024  # bytes of a record of scp: a name has at most 255, a path 4096
_MOST_DIGITS: Final = 19  # of a file's size
_RECORDS: Final = frozenset(b"CDETP\x01\x02")


class Scp:
    """Parser of one direction of scp, for chunks of any size.

    After a file record comes the file's content, which must not be parsed. So call `begin`, or remove the record,
    before the next `step`.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0  # remaining bytes of the current file
        self._status = False  # the status byte after a file is next
        self._hash = FileHash()
        self._name = ""
        self._size = 0
        self.is_record = False  # the result of the last `step` is a record
        self.whole: list[str] = []  # summaries of completed files

    def step(self, data: bytes, pos: int) -> tuple[int, bytes]:
        """Return where the next item begins, and the bytes before it that can be forwarded: file content, the status
        byte, or a whole record. Empty while a record is incomplete. Raises ProtocolViolation."""
        self.is_record = False
        if self._left:
            part = data[pos : pos + self._left]
            self._hash.update(part)
            self._left -= len(part)
            self._status = not self._left
            return pos + len(part), part
        if not self._line and data[pos] == 0:
            self._end("")
            return pos + 1, b"\0"
        end = data.find(b"\n", pos) + 1 or len(data)
        self._line += data[pos:end]
        if len(self._line) > MOST_LINE or self._line[0] not in _RECORDS:
            raise ProtocolViolation("the bytes are not valid scp protocol")
        if not self._line.endswith(b"\n"):
            return end, b""
        line, self._line = self._line, b""
        if line[0] in b"\x01\x02":
            self._end(", and its sender reports that it is incomplete")
        elif line[0] in b"CD":
            _check_name(line)
        self.is_record = True
        return end, line

    def begin(self, line: bytes) -> None:
        """Start the file of this C record, whose content comes next."""
        self._name = _name_in(line)
        self._left = self._size = int(line.split(b" ", 2)[1])
        self._status = not self._left
        self._hash = FileHash()

    def _end(self, how: str) -> None:
        if self._status:
            self._status = False
            self.whole.append(f"{self._name}: {self._size} bytes, sha256 {self._hash.hexdigest()}{how}")

    @property
    def begun(self) -> str:
        """Return the summary of the file that is incomplete; empty where there is none."""
        return self._name if self._left or self._status else ""


class ScpFileRequest(Request):
    """The record of a file that the client sends."""

    def __init__(self, raw: bytes) -> None:
        super().__init__()
        self.raw = raw


class CopyingWire(FileWire):
    """The wire of a copying program. `command` is one for which `copies` returns a direction."""

    def __init__(self, command: str) -> None:
        super().__init__(command)
        self._sends = copies(command) == "send"
        self._scp = Scp() if program(command) == "scp" else None
        self._intake = b""  # client bytes after the record that waits for a decision
        self._input_ended = False
        self._undecided = False
        self._file = 0  # the exchange of the current file
        self._received = 0  # bytes from the client
        self._given = 0  # bytes to the client

    # Client to target

    def _begins(self, request: StartRequest) -> None:
        if self._sends and self.wants.output:
            request.forced = CANNOT_MASK

    def _take(self, data: bytes) -> None:
        self._received += len(data)
        if self._scp is None or self._sends:
            self._upward.append(m.frames(m.STDIN, data))
        else:
            self._intake += data

    def _input_ends(self) -> None:
        self._input_ended = True

    def poll_client(self) -> bytes | Request | Resized | None:
        if not self._upward and not self._undecided:
            if self._intake:
                self._look_on()
            elif self._input_ended:
                self._input_ended = False
                self._upward.append(m.STDIN_END_FRAME)
        return super().poll_client()

    def _look_on(self) -> None:
        """Parse up to the next file record, which is evaluated."""
        scp, data, pos = self._scp, self._intake, 0
        assert scp is not None
        passed: list[bytes] = []
        while pos < len(data):
            pos, part = scp.step(data, pos)
            if scp.is_record and part[:1] == b"C":
                self._undecided = True
                request = ScpFileRequest(part)
                request.operations.append(Operation(self._next(), f"put {_name_in(part)}"))
                break
            passed.append(part)
        self._intake = data[pos:]
        if joined := b"".join(passed):
            self._upward.append(m.frames(m.STDIN, joined))
        self._tell_files("received")
        if self._undecided:
            self._upward.append(request)

    def _forward_request(self, request: Request) -> bytes:
        assert isinstance(request, ScpFileRequest)
        assert self._scp is not None
        self._undecided = False
        self._file = request.operations[0].exchange
        self._scp.begin(request.raw)
        return m.frames(m.STDIN, request.raw)

    def _reject_request(self, request: Request, refusal: Refuse) -> None:
        self._undecided = False
        self._downward.append(m.frames(m.STDOUT, b"\x01scp: denied by a rule of the gateway\n"))

    # Target to client

    def _give(self, data: bytes) -> None:
        self._given += len(data)
        if self._scp is not None and self._sends:
            self._follow(self._scp, data)
        self._downward.append(UnrecordedOutput(m.frames(m.STDOUT, data)))

    def _follow(self, scp: Scp, data: bytes) -> None:
        pos = 0
        while pos < len(data):
            pos, part = scp.step(data, pos)
            if scp.is_record and part[:1] == b"C":
                scp.begin(part)
                self._file = self._exchange
        self._tell_files("sent")

    def _tell_files(self, way: str) -> None:
        if self._scp is not None:
            for summary in self._scp.whole:
                self._downward.append(Completed(self._file, tag=f"{way} {summary}"))
            self._scp.whole.clear()

    def _over(self, code: int, name: str) -> None:
        super()._over(code, name)
        error = f"ended by signal {name}" if name else f"exit code {code}" if code else ""
        tag = f"exit {code}; {self._received} bytes from the client, {self._given} bytes to it"
        self._downward.append(Completed(1, tag=tag, error=error))

    def unfinished_exchanges(self) -> list[Completed]:
        begun = self._scp.begun if self._scp is not None and self._state is not ENDED else ""
        return [Completed(self._file, tag=begun, error="it was not copied completely")] if begun else []

    @property
    def awaiting_response(self) -> bool:
        return self._state is RUNNING


def _check_name(record: bytes) -> None:
    """Check the name in a record: a name with a path would be written outside the requested folder. Raises
    ProtocolViolation."""
    words = record[1:-1].split(b" ", 2)
    sized = len(words) == 3 and words[1].isdigit() and len(words[1]) <= _MOST_DIGITS
    if not sized or b"/" in words[2] or words[2] in (b"", b".", b".."):
        raise ProtocolViolation("an scp record has no valid size or no plain file name")


def _name_in(record: bytes) -> str:
    return record[1:-1].split(b" ", 2)[-1].decode("utf-8", "surrogateescape")
