"""The steady states of links to a command, one wire for each kind of input.

`ScriptWire`: a *script* is buffered whole, with its arguments, and evaluated before the program starts. A refused
script never runs. For a *conversation*, only the arguments are evaluated before the program starts, and then its input:

`TypedWire`: at a terminal each line is evaluated when Enter is pressed. Its characters have reached the program by
then, so a refusal sends Ctrl-U and Ctrl-C instead of the line end. That is advisory: only the program knows what it
makes of keys.
`PipedWire`: lines are evaluated before they are forwarded, and a refusal drops all lines of the same read.
`ForwardWire`: bytes that are not text pass unread.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from postern.errors import ProtocolViolation
from postern.interception.events import Completed, Operation, Output, Resized, Rows
from postern.interception.verdicts import Refuse
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.files.detection import ProtocolDetector
from postern.protocols.terminal.program_wire import ENDED, NEW, REQUESTED, RUNNING, ProgramWire
from postern.protocols.terminal.terminal_lines import ENTER, ERASE_LINE, INTERRUPT, LONGEST, TypedLine
from postern.protocols.terminal.terminal_output import OutputBuffer, ProgramOutput, gateway_message, refusal_message
from postern.protocols.wire_base import Piece, Request

_RECORDED = 1 << 20  # bytes of piped input that are recorded if no rule inspects it
_TOO_MUCH = "this command was terminated because it printed more than %d bytes"
_OPAQUE = "rules of this connection inspect output, and the data of a forwarded port cannot be masked"
_OPAQUE_HINT = "Ask an administrator for a connection without such rules"
_TOO_LARGE = "this input is too large to be evaluated, so it was denied"


class InputRequest(Request):
    """A script with all its input, or an entered line. `starts`: it starts the program."""

    def __init__(self, raw: bytes, *, starts: bool = False) -> None:
        super().__init__()
        self.raw = raw
        self.starts = starts


class PrintingWire(ProgramWire):
    """A program that prints text. `arguments` are the client's."""

    def __init__(self, arguments: tuple[str, ...], *, is_terminal: bool = False) -> None:
        super().__init__(is_terminal=is_terminal)
        self._arguments = arguments
        self._held = {m.STDOUT: OutputBuffer(), m.STDERR: OutputBuffer()}
        self._output_ended = False  # possible before it exits, and before it is admitted
        self._printed = 0

    # Overridden for each kind of input

    def _take(self, kind: int, payload: bytes) -> None:
        """Process a frame of the client into `_upward`."""
        raise NotImplementedError

    def _must_end(self, kind: int, payload: bytes) -> bool:
        """End the program if it must not print this. Return True if it was ended."""
        raise NotImplementedError

    def _drop_lines(self, request: InputRequest, refusal: Refuse) -> bytes:
        """Refuse input of a running program. Return the bytes that the program gets instead."""
        raise NotImplementedError

    # Client to target

    def feed_client(self, data: bytes) -> None:
        for kind, payload in self._client.feed(data):
            if self._state is ENDED:
                return
            self._take(kind, payload)

    def forward(self, request: Request) -> bytes:
        assert isinstance(request, InputRequest)
        if request.starts:
            self._run()
        return request.raw

    def reject(self, request: Request, refusal: Refuse) -> bytes:
        assert isinstance(request, InputRequest)
        return self._refuse_start(refusal) if request.starts else self._drop_lines(request, refusal)

    # Target to client

    def feed_target(self, data: bytes) -> None:
        for kind, payload in self._target.feed(data):
            if kind == m.EXIT:
                self._finish(m.read_exit(payload))
                return
            if kind == m.OUTPUT_END:
                self._end_output()
                continue
            if kind not in self._held:
                raise ProtocolViolation(f"a frame of unknown kind {kind} from a command")
            if self._output_ended:
                raise ProtocolViolation("the command sent output after the end of its output")
            if self._state is ENDED:
                continue
            self._printed += len(payload)
            if self._must_end(kind, payload):
                return
            buffer = self._held[kind]
            if self.wants.output or buffer.data:
                self._print(kind, buffer.take(payload), ends=False)
            elif payload:
                self._downward.append(m.frame(kind, payload))

    def _print(self, kind: int, data: bytes, *, ends: bool) -> None:
        """Queue output. With `ends`, the row of the cursor is not buffered any longer."""
        if data:
            self._downward.append(ProgramOutput(max(self._exchange, 1), kind, data, self._held[kind].row, ends=ends))

    def _let_out(self) -> None:
        for kind, buffer in self._held.items():
            self._print(kind, buffer.rest(), ends=True)

    def _end_output(self) -> None:
        """Queue the end of output, after everything that was buffered."""
        if self._output_ended or self._state is ENDED:
            return
        self._output_ended = True
        self._let_out()
        self._downward.append(m.OUTPUT_END_FRAME)

    def _finish(self, ended: m.Exit) -> None:
        if self._state is ENDED:
            return
        self._let_out()
        error = f"ended by signal {ended.signal}" if ended.signal else ""
        if not error and ended.code:
            error = f"exit code {ended.code}"
        self._downward.append(Completed(max(self._exchange, 1), tag=self._tag(ended.code), error=error))
        self._exit(ended.code, ended.signal)

    def _tag(self, code: int) -> str:
        return f"exit {code}"

    def _stop(self, text: str, code: int) -> None:
        """End a running program and tell the client why."""
        self._downward.append(gateway_message(text, terminal=self._is_terminal))
        self._exit(code)

    def poll_target(self) -> list[Piece]:
        pieces: list[Piece] = []
        while self._downward:
            piece = self._downward.popleft()
            pieces.append(piece)
            if isinstance(piece, ProgramOutput):
                break
        return pieces


class ScriptWire(PrintingWire):
    """A whole script as input. A command that prints more than `most_output` is ended; 0 means no limit. Sizes are in
    bytes."""

    def __init__(self, *, arguments: tuple[str, ...] = (), max_message: int = 32 << 20, most_output: int = 0) -> None:
        super().__init__(arguments)
        self._max_message = max_message
        self._most_output = most_output
        self._script: list[bytes] = []
        self._script_size = 0

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == m.STDIN:
            if self._state is NEW:
                self._gather(payload)
        elif kind == m.STDIN_END:
            if self._state is NEW:
                self._state = REQUESTED
                self._upward.append(self._script_request())
        elif kind == m.SIGNAL:
            m.read_signal(payload)
            if self._state is RUNNING:
                self._upward.append(m.frame(kind, payload))
        elif kind != m.START:
            raise ProtocolViolation(f"unexpected frame of kind {kind} in a script's input")

    def _gather(self, data: bytes) -> None:
        self._script_size += len(data)
        if self._script_size <= self._max_message:
            self._script.append(data)
        else:
            self._script.clear()

    def _script_request(self) -> InputRequest:
        data = b"".join(self._script)
        self._script.clear()
        request = InputRequest(m.START_FRAME + m.frames(m.STDIN, data) + m.STDIN_END_FRAME, starts=True)
        if self._script_size > self._max_message:
            request.forced = Refuse("size", _TOO_LARGE)
        text = data.decode("utf-8", "surrogateescape")
        request.operations.append(Operation(self._next(), text, values=_encode_arguments(self._arguments)))
        return request

    def _must_end(self, kind: int, payload: bytes) -> bool:
        if not self._most_output or self._printed <= self._most_output:
            return False
        self._let_out()
        self._stop(_TOO_MUCH % self._most_output, m.ENDED)
        return True

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        """Abort the run: the rest of a script's output belongs to the same response."""
        self._downward.clear()
        self._exit(m.REFUSED)
        return refusal_message(refusal, terminal=False)

    @property
    def awaiting_response(self) -> bool:
        return self._state is RUNNING


class ConversationWire(PrintingWire):
    """A program that starts with its arguments, and whose input comes while it runs.

    Unless `files`, a program that uses a file transfer protocol is ended as soon as it or its client shows that.
    """

    def __init__(
        self,
        arguments: tuple[str, ...],
        *,
        is_terminal: bool = False,
        size: tuple[int, int] | None = None,
        files: bool = True,
    ) -> None:
        super().__init__(arguments, is_terminal=is_terminal)
        self._size = size
        self._asked = None if files else ProtocolDetector()
        self._answered = None if files else ProtocolDetector()

    def _take_input(self, data: bytes) -> None:
        raise NotImplementedError

    def _end_input(self) -> None:
        """Handle the end of the client's input."""

    def _take(self, kind: int, payload: bytes) -> None:
        if kind == m.START:
            if self._state is not NEW or self._upward:
                raise ProtocolViolation("a command was started a second time")
            self._begin()
        elif kind == m.STDIN:
            if self._asked is None or not self._refuse_files(self._asked.protocol(payload)):
                self._take_input(payload)
        elif kind == m.STDIN_END:
            self._end_input()
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
        self._state = REQUESTED
        if self._size is not None:
            self._upward.append(Resized(*self._size))
        self._upward.append(self._start_request())

    def _start_request(self) -> InputRequest:
        request = InputRequest(m.START_FRAME, starts=True)
        if self._arguments:
            several = self._arguments if len(self._arguments) > 1 else ()  # a single argument is the operation's text
            request.operations.append(
                Operation(self._next(), " ".join(self._arguments), values=_encode_arguments(several))
            )
        return request

    def _drop_lines(self, request: InputRequest, refusal: Refuse) -> bytes:
        self._downward.append(refusal_message(refusal, terminal=self._is_terminal))
        return b""

    def _must_end(self, kind: int, payload: bytes) -> bool:
        if self._answered is None or kind != m.STDOUT:
            return False
        return self._refuse_files(self._answered.protocol(payload))

    def _refuse_files(self, protocol: str) -> bool:
        """End the program if it uses this protocol. Return True if it was ended."""
        if not protocol:
            return False
        error = f"this program speaks {protocol}, and file transfer is disabled on this connection"
        hint = "ask an administrator (access_file_transfer)"
        self._downward.append(gateway_message(f"{error}; {hint}", terminal=self._is_terminal))
        self._downward.append(Completed(max(self._exchange, 1), tag="refused", error=error))
        self._upward.clear()
        self._exit(m.REFUSED)
        return True

    def abort_response(self, event: Rows | Output, refusal: Refuse) -> bytes:
        """Withhold only this piece."""
        assert isinstance(event, ProgramOutput)
        event.withheld()
        return refusal_message(refusal, terminal=self._is_terminal)

    @property
    def awaiting_response(self) -> bool:
        """Return False: whether a program waits at a prompt is unknown. A session is idle while nothing is typed or
        printed."""
        return False


class TypingState(Enum):
    """The handling of typed input.

        PASSES ─a line is refused, send Ctrl-U─▶ ERASES ─flush─▶ INTERRUPTS ─send Ctrl-C─▶ SETTLES ─flush─▶ CLEARS ─┐
           ▲                                                                                                        │
           └─────────────────────────────── more is typed, send Ctrl-U ─────────────────────────────────────────────┘

    Ctrl-U is read in its place, after earlier lines that a busy shell has not read yet; Ctrl-C, which also cancels what
    is on the right of the cursor, is not, and could take the first characters of such a line. A shell that reads Ctrl-C
    together with the next characters treats them as part of the cancelled line: Enter would run it. So type-ahead is
    held. Bash can also keep what it had read of the cancelled line for the new one, so Ctrl-U comes before whatever is
    typed next, however late. Type-ahead gets a space as well: a slow bash can lose the first character.
    """

    PASSES = "passes"
    ERASES = "erases"
    INTERRUPTS = "interrupts"
    SETTLES = "settles"
    CLEARS = "clears"


_PASSES: Final = TypingState.PASSES
_ERASES: Final = TypingState.ERASES
_INTERRUPTS: Final = TypingState.INTERRUPTS
_SETTLES: Final = TypingState.SETTLES
_CLEARS: Final = TypingState.CLEARS
_INTERRUPT_FRAME: Final = m.frames(m.STDIN, INTERRUPT)


class TypedWire(ConversationWire):
    """A terminal with a user, so that output without a line end is a prompt. `size` is its initial columns and rows."""

    def __init__(
        self, *, arguments: tuple[str, ...] = (), size: tuple[int, int] | None = None, files: bool = True
    ) -> None:
        super().__init__(arguments, is_terminal=True, size=size, files=files)
        self._line = TypedLine()
        self._typing: TypingState = _PASSES
        self._erasing = ERASE_LINE
        self._is_interrupted = False  # by the user, since the last line

    def poll_client(self) -> bytes | Request | Resized | None:
        if self._typing is _INTERRUPTS:
            self._typing = _SETTLES
            return m.frames(m.STDIN, INTERRUPT)
        if not self._upward or self.input_paused:
            return None
        if self._typing is _CLEARS:
            self._typing = _PASSES
            return m.frames(m.STDIN, self._erasing)
        return self._upward.popleft()

    def _take(self, kind: int, payload: bytes) -> None:
        super()._take(kind, payload)
        if kind == m.SIGNAL and m.read_signal(payload) == "INT":
            self._is_interrupted = True

    def _take_input(self, data: bytes) -> None:
        """Forward characters; each line end is a separate request."""
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
        if INTERRUPT in data:
            self._is_interrupted = True
        self._upward.append(m.frames(m.STDIN, data))

    def _enter(self, end: bytes) -> None:
        text, truncated = self._line.enter()
        raw = m.frames(m.STDIN, end)
        if not text.strip():
            if raw:
                self._upward.append(raw)
            return
        self._is_interrupted = False
        request = InputRequest(raw)
        request.operations.append(Operation(self._next(), text, truncated=truncated))
        self._upward.append(request)

    def _drop_lines(self, request: InputRequest, refusal: Refuse) -> bytes:
        super()._drop_lines(request, refusal)
        self._typing = _ERASES
        # The user's own Ctrl-C, by which a held line was cancelled: a second one would take what is typed after it.
        if self._upward and self._upward[0] == _INTERRUPT_FRAME:
            self._upward.popleft()
        return m.frames(m.STDIN, ERASE_LINE)

    @property
    def has_buffered_output(self) -> bool:
        buffers = self._held
        return self._state is not ENDED and bool(buffers[m.STDOUT].data or buffers[m.STDERR].data)

    @property
    def is_interrupted(self) -> bool:
        return self._is_interrupted

    @property
    def input_paused(self) -> bool:
        return self._typing is _ERASES or self._typing is _SETTLES

    def flush(self) -> None:
        if self._typing is _ERASES:
            self._typing = _INTERRUPTS
        elif self._typing is _SETTLES:
            self._typing = _CLEARS
            self._erasing = ERASE_LINE + b" " if self._upward else ERASE_LINE
        self._let_out()


class PipedWire(ConversationWire):
    """Input through a pipe, in whole lines if a rule inspects them."""

    def __init__(self, *, arguments: tuple[str, ...] = (), files: bool = True) -> None:
        super().__init__(arguments, files=files)
        self._piped = b""  # an incomplete line
        self._piped_size = 0

    def _take_input(self, data: bytes) -> None:
        data = self._piped + data if self._piped else data
        end = len(data)
        if self.wants.operations:
            end = data.rfind(b"\n") + 1
            if len(data) - end > LONGEST:
                end = len(data)
        self._piped = data[end:]
        if end:
            self._pass_piped(data[:end])

    def _end_input(self) -> None:
        if self._piped:
            self._pass_piped(self._piped)
            self._piped = b""

    def _pass_piped(self, data: bytes) -> None:
        request = InputRequest(m.frames(m.STDIN, data))
        self._piped_size += len(data)
        if self.wants.operations or self._piped_size <= _RECORDED:
            request.operations.append(Operation(self._next(), data.decode("utf-8", "surrogateescape")))
        self._upward.append(request)


class ForwardWire(ConversationWire):
    """Forwarded bytes that are not text. Only the start is evaluated. If output must be masked, the start is refused,
    because the bytes cannot be."""

    def __init__(self, *, arguments: tuple[str, ...] = ()) -> None:
        super().__init__(arguments)
        self._passed = 0  # bytes of input

    def _start_request(self) -> InputRequest:
        request = super()._start_request()
        if self.wants.output:
            request.forced = Refuse("opaque", _OPAQUE, _OPAQUE_HINT)
        return request

    def _take_input(self, data: bytes) -> None:
        self._passed += len(data)
        self._upward.append(m.frames(m.STDIN, data))

    def _must_end(self, kind: int, payload: bytes) -> bool:
        if not self.wants.output:
            return False
        self._stop(f"{_OPAQUE}. {_OPAQUE_HINT}", m.ENDED)  # the rules changed just now: otherwise the start was refused
        return True

    def _tag(self, code: int) -> str:
        return f"{self._passed} bytes to the target, {self._printed} bytes from it, exit {code}"


def _encode_arguments(arguments: tuple[str, ...]) -> tuple[bytes, ...]:
    return tuple([argument.encode("utf-8", "surrogateescape") for argument in arguments])
