"""What the steady states of links have in common whose programs read and write files for their clients.

What files hold is not recorded: which they were, how much went which way, and its hash are, as far as a protocol tells.
Nor can it be masked: where rules look at answers, nothing is sent to the client. What such a program says of errors is
output as any program's is.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Operation, Output, Resized, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.terminal_output import Held, Printed, refused, said, warned
from postern.protocols.terminal.terminal_rendering import TerminalRow
from postern.protocols.wire_base import Piece, Request, Side, Wants, Wire

CANNOT_MASK: Final = Refuse(
    "files",
    "no file can be read here: this connection has rules about what is shown, and what a file holds cannot be masked",
    "Ask an administrator for a connection without masking and output rules.",
)


class Beginning(Request):
    """The program is to begin."""


class FileWire(Wire):
    """`command` is what the client runs, as it is judged before anything runs."""

    def __init__(self, command: str) -> None:
        self.wants = Wants()
        self._command = command
        self._client = m.TerminalFrameReader()
        self._target = m.TerminalFrameReader()
        self._upward: deque[bytes | Request] = deque()
        self._downward: deque[Piece] = deque()
        self._errors = Held()
        self._exchange = 0
        self._asked_to_start = False
        self._started = False
        self._exited = False
        self._code: int | None = None

    # For each kind of program

    def _begins(self, request: Beginning) -> None:
        """May force a refusal."""

    def _take(self, data: bytes) -> None:
        """Of the client: for `_upward`."""
        raise NotImplementedError

    def _input_ends(self) -> None:
        self._upward.append(m.STDIN_END_FRAME)

    def _give(self, data: bytes) -> None:
        """Of the program: for `_downward`."""
        raise NotImplementedError

    def _over(self, code: int, name: str) -> None:
        """The program has ended, by that signal: what is recorded of it, for `_downward`."""
        self._downward.extend(self.left_over())

    def _refused(self, request: Request, refusal: Refuse) -> None:
        """Anything but the beginning: what the client is told, for `_downward`."""
        raise NotImplementedError

    def _admitted(self, request: Request) -> bytes:
        raise NotImplementedError

    # The client's side

    def feed_client(self, data: bytes) -> None:
        for kind, payload in self._client.feed(data):
            if self._exited:
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
                raise ProtocolViolation(f"a frame of kind {kind} from a client that copies files")

    def _begin(self) -> None:
        if self._asked_to_start or self._upward:
            raise ProtocolViolation("a program was started a second time")
        self._asked_to_start = True
        request = Beginning()
        request.operations.append(Operation(self._next(), self._command))
        self._begins(request)
        self._upward.append(request)

    def poll_client(self) -> bytes | Request | Resized | None:
        return self._upward.popleft() if self._upward else None

    def admit(self, request: Request) -> bytes:
        if isinstance(request, Beginning):
            self._started = True
            return m.START_FRAME
        return self._admitted(request)

    def refuse(self, request: Request, refusal: Refuse) -> bytes:
        if isinstance(request, Beginning):
            self._downward.append(refused(refusal, terminal=False))
            self._end(m.REFUSED)
            self._upward.clear()
        else:
            self._refused(request, refusal)
            self._downward.append(refused(refusal, terminal=False))  # what clients make of it has no room for words
        return b""

    def notice(self, warning: Warn) -> bytes:
        return warned(warning, terminal=False)

    def tell(self, warning: Warn) -> None:
        self._downward.append(self.notice(warning))

    def client_finished(self) -> bytes:
        return b""

    def _next(self) -> int:
        self._exchange += 1
        return self._exchange

    # The target's side

    @property
    def answers_waiting(self) -> bool:
        return bool(self._downward)

    def feed_target(self, data: bytes) -> None:
        for kind, payload in self._target.feed(data):
            if self._exited:
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
                self._end(ended.code, ended.signal)
            else:
                raise ProtocolViolation(f"a frame of unknown kind {kind} from a program that copies files")

    def _print(self, data: bytes) -> None:
        if data:
            self._downward.append(Printed(1, m.STDERR, data, TerminalRow(), ends=True))

    def _end(self, code: int, name: str = "") -> None:
        self._downward.append(m.exit_frame(code, name))
        self._exited = True
        self._code = code

    def poll_target(self) -> list[Piece]:
        pieces = list(self._downward)
        self._downward.clear()
        return pieces

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, Printed)
        return event.encode()

    def cut(self, event: Rows | Output, refusal: Refuse) -> bytes:
        return refused(refusal, terminal=False)

    def position(self, side: Side) -> str:
        reader = self._client if side is Side.CLIENT else self._target
        state = "has ended" if self._exited else "runs" if self._started else "has not begun"
        return f"{reader.position}, the program {state}"

    @property
    def exit_code(self) -> int | None:
        return self._code

    def farewell(self, message: str, code: str, hint: str = "") -> bytes:
        text = f"{message}. {hint}" if hint else message
        return said(text, terminal=False) + m.exit_frame(m.ENDED)

    @property
    def goodbye(self) -> bool:
        return self._exited

    @property
    def unfinished(self) -> int:
        return 0

    @property
    def needs_farewell(self) -> bool:
        return not self._exited
