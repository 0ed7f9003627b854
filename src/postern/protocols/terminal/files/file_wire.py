"""The common part of wires whose programs transfer files with their clients.

Recordings omit the content of files. They have its name, size and hash, as far as the protocol reveals these. Content
cannot be masked either: if rules inspect output, no file is sent to the client. Error messages of such a program are
output as for any program.
"""

from __future__ import annotations

from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Operation, Output, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.program_wire import ENDED, NEW, REQUESTED, ProgramWire
from postern.protocols.terminal.terminal_output import OutputBuffer, ProgramOutput, refusal_message
from postern.protocols.terminal.terminal_rendering import TerminalRow
from postern.protocols.wire_base import Piece, Request

CANNOT_MASK: Final = Refuse(
    "files",
    "files cannot be read on this connection: it has rules for output, and the content of files cannot be masked",
    "Ask an administrator for a connection without masking and output rules.",
)


class StartRequest(Request):
    """The request to start the program."""


class FileWire(ProgramWire):
    """The wire of a file program. `command` is the client's command, which is evaluated before anything runs."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self._command = command
        self._errors = OutputBuffer()

    # Overridden by each kind of program

    def _begins(self, request: StartRequest) -> None:
        """Prepare the start. May force a refusal."""

    def _take(self, data: bytes) -> None:
        """Process client data into `_upward`."""
        raise NotImplementedError

    def _input_ends(self) -> None:
        self._upward.append(m.STDIN_END_FRAME)

    def _give(self, data: bytes) -> None:
        """Process program output into `_downward`."""
        raise NotImplementedError

    def _over(self, code: int, name: str) -> None:
        """Handle the program's exit, by that signal if any: add what is recorded to `_downward`."""
        self._downward.extend(self.unfinished_exchanges())

    def _reject_request(self, request: Request, refusal: Refuse) -> None:
        """Refuse a request after the start: add the client's error to `_downward`."""
        raise NotImplementedError

    def _forward_request(self, request: Request) -> bytes:
        raise NotImplementedError

    # Client to target

    def feed_client(self, data: bytes) -> None:
        for kind, payload in self._client.feed(data):
            if self._state is ENDED:
                return
            if kind == m.START:
                self._begin()
            elif kind == m.STDIN:
                self._take(payload)
            elif kind == m.STDIN_END:
                self._input_ends()
            elif kind == m.SIGNAL:
                m.read_signal(payload)
                self._upward.append(m.frame(kind, payload))
            elif kind != m.RESIZE:
                raise ProtocolViolation(f"unexpected frame of kind {kind} from a client that copies files")

    def _begin(self) -> None:
        if self._state is not NEW or self._upward:
            raise ProtocolViolation("a program was started a second time")
        self._state = REQUESTED
        request = StartRequest()
        request.operations.append(Operation(self._next(), self._command))
        self._begins(request)
        self._upward.append(request)

    def forward(self, request: Request) -> bytes:
        if isinstance(request, StartRequest):
            self._run()
            return m.START_FRAME
        return self._forward_request(request)

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        if isinstance(request, StartRequest):
            return self._refuse_start(refusal)
        self._reject_request(request, refusal)
        self._downward.append(refusal_message(refusal, terminal=False))  # these clients cannot display a message
        return b""

    # Target to client

    def feed_target(self, data: bytes) -> None:
        for kind, payload in self._target.feed(data):
            if self._state is ENDED:
                return
            if kind == m.STDOUT:
                self._give(payload)
            elif kind == m.STDERR:
                self._print(self._errors.take(payload))
            elif kind == m.OUTPUT_END:
                self._print(self._errors.rest())
                self._downward.append(m.OUTPUT_END_FRAME)
            elif kind == m.EXIT:
                ended = m.read_exit(payload)
                self._print(self._errors.rest())
                self._over(ended.code, ended.signal)
                self._exit(ended.code, ended.signal)
            else:
                raise ProtocolViolation(f"a frame of unknown kind {kind} from a program that copies files")

    def _print(self, data: bytes) -> None:
        if data:
            self._downward.append(ProgramOutput(1, m.STDERR, data, TerminalRow(), ends=True))

    def poll_target(self) -> list[Piece]:
        pieces = list(self._downward)
        self._downward.clear()
        return pieces

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        return refusal_message(refusal, terminal=False)
