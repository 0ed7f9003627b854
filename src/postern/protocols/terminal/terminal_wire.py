"""The steady state of a link to a command.

Input comes in one of two ways. A *script* is gathered whole, with the arguments beside it, and judged before the
program begins: what is refused never runs. Of a *conversation*, the arguments are judged before the program begins.
At a terminal each line is judged when it is entered: its characters have reached the program by then, so a refusal
puts Ctrl-C in place of the line's end. That is advice and no wall: what a program makes of keys, only the program
knows. Through pipes, lines are judged before they are passed, and a refusal drops those that came together.
"""

from __future__ import annotations

from collections import deque

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Operation, Output, Resized, Rows
from postern.interception.verdicts import Refuse, Warn
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files.detection import ProtocolDetector
from postern.protocols.terminal.terminal_lines import CLEAR, ENTER, INTERRUPT, LONGEST, TypedLine
from postern.protocols.terminal.terminal_output import Held, Printed, refused, said, warned
from postern.protocols.wire_base import Piece, Request, Side, Wants, Wire

_RECORDED = 1 << 20  # bytes of piped input that are recorded where no rule asks for it
_TOO_MUCH = "this command was ended, since it printed more than %d bytes"
_OPAQUE = "rules of this connection look at what is shown, and what a forwarded port carries cannot be masked"
_OPAQUE_HINT = "Ask an administrator for a connection without such rules"
_TOO_LARGE = "this input is too large to be judged, so it was refused"


class Entered(Request):
    """A script with all its input, or a line that was entered. `starts`: it is what the program begins with."""

    def __init__(self, raw: bytes, *, starts: bool = False) -> None:
        super().__init__()
        self.raw = raw
        self.starts = starts


class TerminalWire(Wire):
    """`arguments` are those that the client asked for. `whole`: the input is a script. `terminal`: somebody sits
    there, so what is printed without a line end is a prompt; `size` is that terminal's columns and rows when it
    begins. A command that prints more than `most_output` is ended; 0 is no limit. Sizes in bytes.

    `opaque`: neither what comes nor what is shown is text, but whatever somebody forwards. Only what it
    begins with is judged; where anything must be hidden of what is shown it is refused, since that cannot be done.

    Unless `files`, a program that speaks a protocol of file transfer is ended as soon as it or its client says so."""

    def __init__(
        self,
        *,
        arguments: tuple[str, ...] = (),
        whole: bool,
        terminal: bool,
        size: tuple[int, int] | None = None,
        max_message: int = 32 << 20,
        most_output: int = 0,
        opaque: bool = False,
        files: bool = True,
    ) -> None:
        self.wants = Wants()
        self._asked = None if files else ProtocolDetector()
        self._answered = None if files else ProtocolDetector()
        self._opaque = opaque
        self._passed = 0  # bytes of input, where it is opaque
        self._arguments = arguments
        self._whole = whole
        self._terminal = terminal
        self._size = size
        self._max_message = max_message
        self._most_output = most_output
        self._client = m.TerminalFrameReader()
        self._target = m.TerminalFrameReader()
        self._upward: deque[bytes | Request | Resized] = deque()
        self._downward: deque[Piece] = deque()
        self._script: list[bytes] = []
        self._script_size = 0
        self._exchange = 0
        self._line = TypedLine()
        self._piped = b""  # a line that has not ended
        self._piped_size = 0
        self._started = False
        self._settles = False
        self._clears = False
        self._input_ended = False
        self._held = {m.STDOUT: Held(), m.STDERR: Held()}
        self._output_ended = False
        self._cutting = False  # the rest of the output was refused
        self._exited = False
        self._code: int | None = None
        self._printed = 0

    # The client's side

    def feed_client(self, data: bytes) -> None:
        for kind, payload in self._client.feed(data):
            if self._exited:
                return
            if self._whole:
                self._take_script(kind, payload)
            else:
                self._take_typed(kind, payload)

    def poll_client(self) -> bytes | Request | Resized | None:
        if self._settles or not self._upward:
            return None
        if self._clears:
            self._clears = False
            return m.frames(m.STDIN, CLEAR)
        return self._upward.popleft()

    def _take_script(self, kind: int, payload: bytes) -> None:
        if kind == m.STDIN and not self._input_ended:
            self._script_size += len(payload)
            if self._script_size <= self._max_message:
                self._script.append(payload)
            else:
                self._script.clear()
        elif kind == m.STDIN_END and not self._input_ended:
            self._input_ended = True
            data = b"".join(self._script)
            self._script.clear()
            self._upward.append(self._script_request(data))
        elif kind == m.SIGNAL:
            m.read_signal(payload)
            if self._started:
                self._upward.append(m.frame(kind, payload))
        elif kind != m.START:
            raise ProtocolViolation(f"a frame of kind {kind} in a script's input")

    def _script_request(self, data: bytes) -> Entered:
        request = Entered(m.START_FRAME + m.frames(m.STDIN, data) + m.STDIN_END_FRAME, starts=True)
        if self._script_size > self._max_message:
            request.forced = Refuse("size", _TOO_LARGE)
        text = data.decode("utf-8", "surrogateescape")
        values = tuple([argument.encode("utf-8", "surrogateescape") for argument in self._arguments])
        request.operations.append(Operation(self._next(), text, values=values))
        return request

    def _take_typed(self, kind: int, payload: bytes) -> None:
        if kind == m.START:
            if self._started or self._upward:
                raise ProtocolViolation("a command was started a second time")
            self._begin()
        elif kind == m.STDIN:
            if self._asked is not None and self._refuse_files(self._asked.protocol(payload)):
                return
            if self._opaque:
                self._passed += len(payload)
                self._upward.append(m.frames(m.STDIN, payload))
            elif self._terminal:
                self._type(payload)
            else:
                self._pipe(payload)
        elif kind == m.STDIN_END:
            if self._piped:
                self._pass_piped(self._piped)
                self._piped = b""
            self._upward.append(m.STDIN_END_FRAME)
        elif kind == m.RESIZE:
            size = m.read_resize(payload)
            if size != self._size:
                self._size = size
                self._upward.append(Resized(*size))
            self._upward.append(m.frame(kind, payload))
        elif kind == m.SIGNAL:
            m.read_signal(payload)
            self._upward.append(m.frame(kind, payload))
        else:
            raise ProtocolViolation(f"a frame of unknown kind {kind} from the client of a command")

    def _begin(self) -> None:
        if self._size is not None:
            self._upward.append(Resized(*self._size))
        request = Entered(m.START_FRAME, starts=True)
        if self._arguments:
            several = self._arguments if len(self._arguments) > 1 else ()  # one is the text itself
            values = tuple([argument.encode("utf-8", "surrogateescape") for argument in several])
            request.operations.append(Operation(self._next(), " ".join(self._arguments), values=values))
        if self._opaque and self.wants.output:
            request.forced = Refuse("opaque", _OPAQUE, _OPAQUE_HINT)
        self._upward.append(request)

    def _type(self, data: bytes) -> None:
        """Characters go their way; each line end is a request of its own."""
        start = 0
        for pos in range(len(data)):
            if data[pos] in ENTER:
                if pos > start:
                    self._pass_typed(data[start:pos])
                self._enter(data[pos : pos + 1])
                start = pos + 1
        if start < len(data):
            self._pass_typed(data[start:])

    def _pass_typed(self, data: bytes) -> None:
        self._line.type(data)
        self._upward.append(m.frames(m.STDIN, data))

    def _enter(self, end: bytes) -> None:
        text, truncated = self._line.enter()
        raw = m.frames(m.STDIN, end)
        if not text.strip():
            if raw:
                self._upward.append(raw)
            return
        request = Entered(raw)
        request.operations.append(Operation(self._next(), text, truncated=truncated))
        self._upward.append(request)

    def _pipe(self, data: bytes) -> None:
        """Whole lines, as far as somebody judges them."""
        data = self._piped + data if self._piped else data
        end = len(data)
        if self.wants.operations:
            end = data.rfind(b"\n") + 1
            if len(data) - end > LONGEST:
                end = len(data)
        self._piped = data[end:]
        if end:
            self._pass_piped(data[:end])

    def _pass_piped(self, data: bytes) -> None:
        request = Entered(m.frames(m.STDIN, data))
        self._piped_size += len(data)
        if self.wants.operations or self._piped_size <= _RECORDED:
            request.operations.append(Operation(self._next(), data.decode("utf-8", "surrogateescape")))
        self._upward.append(request)

    def _next(self) -> int:
        self._exchange += 1
        return self._exchange

    def admit(self, request: Request) -> bytes:
        assert isinstance(request, Entered)
        self._started = self._started or request.starts
        return request.raw

    def refuse(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, Entered)
        message = refused(refusal, terminal=self._terminal)
        if request.starts:
            self._downward.append(message)
            self._close(m.REFUSED)
            self._upward.clear()
            return b""
        self._downward.append(message)
        self._settles = self._terminal
        return m.frames(m.STDIN, INTERRUPT) if self._terminal else b""

    def notice(self, warning: Warn) -> bytes:
        return warned(warning, terminal=self._terminal)

    def tell(self, warning: Warn) -> None:
        self._downward.append(self.notice(warning))

    def client_finished(self) -> bytes:
        return b""

    # The target's side

    @property
    def answers_waiting(self) -> bool:
        return bool(self._downward)

    def feed_target(self, data: bytes) -> None:
        for kind, payload in self._target.feed(data):
            if kind == m.EXIT:
                self._end(m.read_exit(payload))
                return
            if kind == m.OUTPUT_END:
                self._end_output()
                continue
            if kind not in self._held:
                raise ProtocolViolation(f"a frame of unknown kind {kind} from a command")
            if self._output_ended:
                raise ProtocolViolation("output behind the end of a command's output")
            if self._cutting or self._exited:
                continue
            self._printed += len(payload)
            if self._answered is not None and kind == m.STDOUT and self._refuse_files(self._answered.protocol(payload)):
                return
            if self._opaque and self.wants.output:  # since a moment ago: it was refused otherwise
                self._downward.append(said(f"{_OPAQUE}. {_OPAQUE_HINT}", terminal=self._terminal))
                self._close(m.ENDED)
                return
            if self._most_output and self._printed > self._most_output:
                self._let_out()
                self._downward.append(said(_TOO_MUCH % self._most_output, terminal=self._terminal))
                self._close(m.ENDED)
                return
            held = self._held[kind]
            if self.wants.output or held.data:
                self._print(kind, held.take(payload), ends=False)
            elif payload:
                self._downward.append(m.frame(kind, payload))

    def _refuse_files(self, protocol: str) -> bool:
        """Ends the program that speaks this; whether there is one."""
        if not protocol:
            return False
        error = f"this program speaks {protocol}, and file transfer is disabled on this connection"
        hint = "ask an administrator (access_file_transfer)"
        self._downward.append(said(f"{error}; {hint}", terminal=self._terminal))
        self._downward.append(Completed(max(self._exchange, 1), tag="refused", error=error))
        self._upward.clear()
        self._close(m.REFUSED)
        return True

    def _print(self, kind: int, data: bytes, *, ends: bool) -> None:
        """`ends`: the row that the cursor is in is not waited for any longer."""
        if data:
            self._downward.append(Printed(max(self._exchange, 1), kind, data, self._held[kind].row, ends=ends))

    def _end_output(self) -> None:
        """Behind all that was held back of it."""
        if self._output_ended or self._exited:
            return
        self._output_ended = True
        self._let_out()
        self._downward.append(m.OUTPUT_END_FRAME)

    def _end(self, ended: m.Exit) -> None:
        if self._exited:
            return
        self._let_out()
        error = f"ended by signal {ended.signal}" if ended.signal else ""
        if not error and ended.code:
            error = f"exit code {ended.code}"
        tag = f"exit {ended.code}"
        if self._opaque:
            tag = f"{self._passed} bytes to the target, {self._printed} bytes from it, {tag}"
        self._downward.append(Completed(max(self._exchange, 1), tag=tag, error=error))
        self._close(ended.code, ended.signal)

    def _close(self, code: int, name: str = "") -> None:
        self._downward.append(m.exit_frame(code, name))
        self._exited = True
        self._code = code

    def poll_target(self) -> list[Piece]:
        pieces: list[Piece] = []
        while self._downward:
            piece = self._downward.popleft()
            if self._cutting and isinstance(piece, Printed):
                continue
            pieces.append(piece)
            if isinstance(piece, Printed):
                break
        return pieces

    def render(self, event: Rows | Output) -> bytes:
        assert isinstance(event, Printed)
        return event.encode()

    def cut(self, event: Rows | Output, refusal: Refuse) -> bytes:
        """At a prompt only this piece is withheld. The rest of what a script prints is no more than a part of the same
        answer: it goes too, and the run has failed."""
        message = refused(refusal, terminal=self._terminal)
        if not self._whole:
            assert isinstance(event, Printed)
            event.withheld()
            return message
        self._cutting = self._exited = True
        self._code = m.REFUSED
        self._downward.clear()
        return message + m.exit_frame(m.REFUSED)

    @property
    def withholds(self) -> bool:
        return self._terminal and not self._exited and bool(self._held[m.STDOUT].data or self._held[m.STDERR].data)

    @property
    def settles(self) -> bool:
        """A shell that reads Ctrl-C together with what was typed behind it takes that for a part of the line that it
        has to forget: an Enter runs it. So that waits; and for a shell that is late all the same Ctrl-U stands in front
        of it, and a blank, as bash loses the first character of the line behind them then."""
        return self._settles

    def release(self) -> None:
        self._clears = self._settles and bool(self._upward)
        self._settles = False
        self._let_out()

    def _let_out(self) -> None:
        for kind, held in self._held.items():
            self._print(kind, held.rest(), ends=True)

    @property
    def exit_code(self) -> int | None:
        return self._code

    def position(self, side: Side) -> str:
        reader = self._client if side is Side.CLIENT else self._target
        state = "has ended" if self._exited else "runs" if self._started else "has not begun"
        return f"{reader.position}, the program {state}"

    @property
    def busy(self) -> bool:
        """At a prompt nobody knows: a session counts as idle when nothing is typed and nothing printed."""
        return self._whole and self._started and not self._exited

    def farewell(self, message: str, code: str, hint: str = "") -> bytes:
        text = f"{message}. {hint}" if hint else message
        return said(text, terminal=self._terminal) + m.exit_frame(m.ENDED)

    @property
    def goodbye(self) -> bool:
        return self._exited

    @property
    def unfinished(self) -> int:
        return 0

    @property
    def needs_farewell(self) -> bool:
        return not self._exited
