"""The steady state of a link whose program is an SFTP server.

    client                       here                                        target
      ├─ OPEN, REMOVE, SETSTAT … ─▶ an operation, evaluated; refused: STATUS ▶│
      ├─ STAT, READ, WRITE …    ─▶ forwarded and tracked ──────────────────▶ │
      │ ◀── HANDLE, STATUS, DATA … forwarded and tracked: bytes, hash  ◀──── │
      ├─ CLOSE: the handle is invalid from here on ────────────────────────▶│ ◀ STATUS: the transfer is recorded

Responses carry the id of their request, so a refusal is sent at once, in any order. Recordings omit the content of
files; they have names, sizes and hashes. Content cannot be masked: if rules inspect output, no file is opened for
reading. Names are as the client writes them. Only the server can resolve links and `..`, so a rule about paths is
advisory.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Operation
from postern.interception.verdicts import Refuse
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files import sftp_messages as s
from postern.protocols.terminal.files.file_wire import CANNOT_MASK, FileWire
from postern.protocols.terminal.files.transfers import OutOfOrderBytes, Transfer
from postern.protocols.terminal.program_wire import ENDED
from postern.protocols.wire_base import Request, UnrecordedOutput

MOST_PENDING: Final = 4096  # requests without a response; OpenSSH's clients send up to 64
MOST_OPEN: Final = 1024  # open files
VERSION: Final = 3
# Names of requests with one path, and of those with two paths.
_ONE: Final = {
    s.REMOVE: "remove",
    s.MKDIR: "mkdir",
    s.RMDIR: "rmdir",
    s.SETSTAT: "setstat",
    s.OPENDIR: "list",
    s.READLINK: "readlink",
}
_ONE_EXTENDED: Final = {b"lsetstat@openssh.com": "setstat"}
_TWO: Final = {s.RENAME: "rename", s.SYMLINK: "symlink"}
_TWO_EXTENDED: Final = {
    b"posix-rename@openssh.com": "rename",
    b"hardlink@openssh.com": "hardlink",
}
_QUIET: Final = frozenset({s.CLOSE, s.READ, s.WRITE, s.LSTAT, s.FSTAT, s.READDIR, s.REALPATH, s.STAT})
_QUIET_EXTENDED: Final = frozenset(
    {
        b"expand-path@openssh.com",
        b"fsync@openssh.com",
        b"fstatvfs@openssh.com",
        b"home-directory",
        b"limits@openssh.com",
        b"statvfs@openssh.com",
        b"users-groups-by-id@openssh.com",
    }
)
_ANSWERS: Final = frozenset({s.STATUS, s.HANDLE, s.DATA, s.NAME, s.ATTRS, s.EXTENDED_REPLY})


class SftpRequest(Request):
    """One packet that rules evaluate."""

    def __init__(self, raw: bytes, number: int) -> None:
        super().__init__()
        self.raw = raw
        self.number = number


class _Pending:
    """A request that was forwarded, with its transfer if it belongs to one."""

    __slots__ = ("exchange", "kind", "offset", "transfer")

    def __init__(self, kind: int, exchange: int = 0, transfer: Transfer | None = None, offset: int = 0) -> None:
        self.kind = kind
        self.exchange = exchange
        self.transfer = transfer
        self.offset = offset


class SftpWire(FileWire):
    def __init__(self) -> None:
        super().__init__("sftp")
        self._requests = s.SftpPackets()
        self._answers = s.SftpPackets()
        self._pending: dict[int, _Pending] = {}
        self._undecided: set[int] = set()  # ids of requests that wait for a decision
        self._open: dict[bytes, Transfer] = {}
        self._ahead = OutOfOrderBytes()
        self._greeted = False  # INIT was received

    # Client to target

    def _take(self, data: bytes) -> None:
        """Parse packets. Packets that need no decision are joined, so that one read causes one write."""
        quiet: list[bytes] = []
        for packet in self._requests.feed(data):
            request = self._read_request(packet)
            if request is None:
                quiet.append(packet)
                continue
            if quiet:
                self._upward.append(m.frames(m.STDIN, b"".join(quiet)))
                quiet = []
            self._upward.append(request)
        if quiet:
            self._upward.append(m.frames(m.STDIN, b"".join(quiet)))

    def _read_request(self, packet: bytes) -> SftpRequest | None:
        """Return the request to evaluate, or None for a packet that is forwarded and tracked without evaluation."""
        kind = packet[4]
        if not self._greeted:
            if kind != s.INIT:
                raise ProtocolViolation("the first packet of an SFTP session must be INIT")
            self._greeted = True
            if s.SftpReader(packet).number() != VERSION:
                raise ProtocolViolation(f"only version {VERSION} of SFTP is supported")
            return None
        reader = s.SftpReader(packet)
        number = reader.number()
        pending = len(self._pending) + len(self._undecided)
        if number in self._pending or number in self._undecided or pending >= MOST_PENDING:
            raise ProtocolViolation("the SFTP client reused a pending request id, or sent too many requests ahead")
        if kind in _QUIET:
            self._pending[number] = self._track_request(kind, reader)
            return None
        if kind == s.EXTENDED:
            name = reader.text()
            if name in _QUIET_EXTENDED:
                self._pending[number] = _Pending(kind)
                return None
            if name in _ONE_EXTENDED:
                return self._make_request(packet, number, _ONE_EXTENDED[name], reader.text())
            if name in _TWO_EXTENDED:
                return self._make_request(packet, number, _TWO_EXTENDED[name], reader.text(), reader.text())
            request = self._make_request(packet, number, "extension", name)
            request.forced = CANNOT_MASK if self.wants.output else None  # its response can contain anything
            return request
        if kind == s.OPEN:
            return self._opens(packet, number, reader)
        if kind == s.FSETSTAT:
            return self._make_request(packet, number, _ONE[s.SETSTAT], self._find_transfer(reader.text()).path)
        if kind in _ONE:
            return self._make_request(packet, number, _ONE[kind], reader.text())
        if kind in _TWO:
            return self._make_request(packet, number, _TWO[kind], reader.text(), reader.text())
        raise ProtocolViolation(f"a packet of type {kind} from the client of a file transfer")

    def _track_request(self, kind: int, reader: s.SftpReader) -> _Pending:
        if kind not in (s.READ, s.WRITE, s.CLOSE):
            return _Pending(kind)
        if kind == s.READ and self.wants.output:
            raise ProtocolViolation("the client reads a file that it did not open for reading")
        handle = reader.text()
        if kind == s.CLOSE:  # the handle can be a directory's
            return _Pending(kind, transfer=self._open.pop(handle, None))
        transfer, offset = self._find_transfer(handle), reader.offset()
        if kind == s.WRITE:
            transfer.written.add(offset, reader.text())
        return _Pending(kind, transfer=transfer, offset=offset)

    def _find_transfer(self, handle: bytes) -> Transfer:
        """Return the transfer of an open handle. A handle that is not open is rejected: a client that guesses a future
        handle could bypass the rules."""
        transfer = self._open.get(handle)
        if transfer is None:
            raise ProtocolViolation("the client uses a file handle that is not open")
        return transfer

    def _opens(self, packet: bytes, number: int, reader: s.SftpReader) -> SftpRequest:
        path, flags = reader.text(), reader.number()
        reads, writes = flags & s.READS, flags & (s.WRITES | s.APPENDS)
        what = "update" if reads and writes else "put" if writes else "get"
        request = self._make_request(packet, number, what, path)
        if reads and self.wants.output:
            request.forced = CANNOT_MASK
        elif len(self._open) >= MOST_OPEN:
            request.forced = Refuse("files", f"{MOST_OPEN} files are open already", "Close some of them first.")
        return request

    def _make_request(self, packet: bytes, number: int, what: str, *paths: bytes) -> SftpRequest:
        words = " ".join(path.decode("utf-8", "surrogateescape") for path in paths)
        self._undecided.add(number)
        request = SftpRequest(packet, number)
        request.operations.append(Operation(self._next(), f"{what} {words}"))
        return request

    def _forward_request(self, request: Request) -> bytes:
        assert isinstance(request, SftpRequest)
        self._undecided.discard(request.number)
        operation = request.operations[0]
        transfer = None
        if request.raw[4] == s.OPEN:
            reader = s.SftpReader(request.raw)
            reader.number()
            transfer = Transfer(operation.exchange, reader.text(), self._ahead)
            if reader.number() & s.APPENDS:
                transfer.written.give_up()  # with APPEND the server ignores offsets
        self._pending[request.number] = _Pending(request.raw[4], operation.exchange, transfer)
        return m.frames(m.STDIN, request.raw)

    def _reject_request(self, request: Request, refusal: Refuse) -> None:
        assert isinstance(request, SftpRequest)
        self._undecided.discard(request.number)
        text = f"{refusal.message}. {refusal.hint}" if refusal.hint else refusal.message
        self._downward.append(m.frames(m.STDOUT, s.status(request.number, s.PERMISSION_DENIED, text)))

    # Target to client

    def _give(self, data: bytes) -> None:
        for packet in self._answers.feed(data):
            self._answer(packet)

    def _answer(self, packet: bytes) -> None:
        kind = packet[4]
        if kind == s.VERSION:
            if s.SftpReader(packet).number() != VERSION:
                raise ProtocolViolation("the target answered with a different SFTP version than requested")
        elif kind in _ANSWERS:
            number = s.SftpReader(packet).number()
            pending = self._pending.pop(number, None)
            if pending is None:
                raise ProtocolViolation("the target answered a request that was not sent")
            self._settle(pending, kind, packet)
        else:
            raise ProtocolViolation(f"a packet of type {kind} from the target of a file transfer")
        self._downward.append(UnrecordedOutput(m.frames(m.STDOUT, packet)))

    def _settle(self, pending: _Pending, kind: int, packet: bytes) -> None:
        transfer = pending.transfer
        error = _read_status_error(packet) if kind == s.STATUS else ""
        if pending.kind == s.OPEN and transfer is not None:
            if kind == s.HANDLE:
                reader = s.SftpReader(packet)
                reader.number()
                handle = reader.text()
                if handle in self._open:
                    raise ProtocolViolation("the target returned a file handle that is already in use")
                self._open[handle] = transfer
            else:
                self._downward.append(Completed(transfer.exchange, error=error or "it was not opened"))
        elif pending.kind == s.READ and transfer is not None and kind == s.DATA:
            reader = s.SftpReader(packet)
            reader.number()
            transfer.read.add(pending.offset, reader.text())
        elif pending.kind == s.WRITE and transfer is not None:
            transfer.error = transfer.error or error
        elif pending.kind == s.CLOSE and transfer is not None:
            self._downward.append(_make_completed_event(transfer, error))
        elif pending.exchange:
            self._downward.append(Completed(pending.exchange, error=error))

    def unfinished_exchanges(self) -> list[Completed]:
        """Return the files that were not closed, with the bytes transferred so far."""
        closing = [one.transfer for one in self._pending.values() if one.kind == s.CLOSE and one.transfer is not None]
        left = [_make_completed_event(transfer, "it was not closed") for transfer in [*self._open.values(), *closing]]
        self._open.clear()
        self._pending.clear()
        return left

    @property
    def awaiting_response(self) -> bool:
        return bool(self._pending) and self._state is not ENDED


def _make_completed_event(transfer: Transfer, error: str) -> Completed:
    return Completed(transfer.exchange, tag=transfer.tag(), error=transfer.error or error)


def _read_status_error(packet: bytes) -> str:
    """Return the error in a STATUS; empty for success and for the end of a file."""
    reader = s.SftpReader(packet)
    reader.number()
    code = reader.number()
    if code in (s.OK, s.END_OF_FILE):
        return ""
    try:
        message = reader.text().decode("utf-8", "replace")
    except ProtocolViolation:  # old servers send no message
        message = ""
    return message or f"status {code}"
