"""The client that `exec` uses to run one script on a program. Without I/O."""

from __future__ import annotations

from postern.protocols.terminal import terminal_frames as m


class TerminalScript:
    """The client of a script, which is the program's whole standard input. The output is in the recording."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = m.TerminalFrameReader()
        self._exit: m.Exit | None = None

    @property
    def finished(self) -> bool:
        return self._exit is not None

    @property
    def leaves(self) -> bool:
        """True after the last frame."""
        return self.finished

    def exit_code(self) -> int:
        """Return the program's exit code, or ENDED if it did not finish."""
        return m.ENDED if self._exit is None else self._exit.code

    def start(self) -> bytes:
        return m.START_FRAME + m.frames(m.STDIN, self._text.encode("utf-8", "surrogateescape")) + m.STDIN_END_FRAME

    def feed(self, data: bytes) -> bytes:
        """Take output of the gateway. Return what the client sends next: nothing."""
        for kind, payload in self._reader.feed(data):
            if kind == m.EXIT:
                self._exit = m.read_exit(payload)
        return b""
