"""The gateway's handling of clients of programs: commands, and SSH channels."""

from __future__ import annotations

from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import Verb
from postern.errors import Denied, PosternError
from postern.gateway.clients.session_setup import ClientSession, log_rejection
from postern.gateway.clients.tunnel_request import TunnelRequest
from postern.protocols.terminal import terminal_frames as m
from postern.protocols.terminal.program_wire import ProgramWire
from postern.protocols.terminal.terminal_output import gateway_message
from postern.protocols.terminal.terminal_wire import ForwardWire, PipedWire, ScriptWire, TypedWire
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target
from postern.settings import Settings

# Keys and signals that cancel a program before it runs.
_KEYS = b"\x03\x04\x1c"  # Ctrl-C, Ctrl-D, Ctrl-\
_SIGNALS = frozenset({"HUP", "INT", "QUIT", "TERM"})


def program_wire(
    settings: Settings, permit: Permit, start: Start, arguments: tuple[str, ...], *, files: bool = True
) -> ProgramWire:
    """Make the wire of a program. A script is all of its input at once."""
    if permit.verb is Verb.EXEC:
        most = settings.script_output_limit
        return ScriptWire(arguments=arguments, max_message=settings.max_statement, most_output=most)
    if start.channel is not None and not start.channel.kind.is_program:
        return ForwardWire(arguments=arguments)
    if start.terminal is not None:
        return TypedWire(arguments=arguments, size=(start.terminal.columns, start.terminal.rows), files=files)
    return PipedWire(arguments=arguments, files=files)


class ProgramClient(ClientSession):
    """A client that may wait for its program to be approved. Its input is buffered for the program, and searched for
    the keys and signals that end the wait."""

    def __init__(
        self, stream: StreamHandshake, since: int, start: Start, request: TunnelRequest | None = None, **metadata: str
    ) -> None:
        metadata |= {"client_address": stream.peer, "terminal": "yes" if start.terminal else "no"}
        if request is not None and request.browser is not None:
            metadata["web_terminal"] = "yes"
        super().__init__(stream, since, metadata, request)
        self._start = start
        self._is_terminal = start.terminal is not None
        self._waited = False
        self._reader = m.TerminalFrameReader()
        self._seen = 0  # bytes

    def send_notice(self, text: str, hint: str) -> None:
        self.stream.write(gateway_message(f"{text}. {hint}", terminal=self._is_terminal) + m.waits(True))
        self._waited = True

    def check(self) -> None:
        data = self.stream.unread(self._seen)
        self._seen += len(data)
        for kind, payload in self._reader.feed(data):
            typed = self._is_terminal and kind == m.STDIN and any(key in payload for key in _KEYS)
            if typed or (kind == m.SIGNAL and m.read_signal(payload) in _SIGNALS):
                raise Denied("Stopped waiting. The request is still pending; reconnect to resume it.")

    def start(self, permit: Permit) -> Start:
        if self._waited:
            self.stream.write(m.waits(False))
        return self._start

    def welcome(self, target: Target) -> bytes:
        return b""

    def turn_away(self, error: PosternError) -> None:
        text, hint = log_rejection(self.stream, error)
        self.stream.write(
            gateway_message(f"{text}. {hint}" if hint else text, terminal=self._is_terminal) + m.exit_frame(m.ENDED)
        )
