"""Runs one script as a client of its own: what `exec` sends, and how it knows the end. Sans-IO."""

from __future__ import annotations

from postern.protocols.terminal import terminal_frames as m


class TerminalScript:
    """The program's standard input, all of it. What was shown is in the recording."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._reader = m.TerminalFrameReader()
        self._exit: m.Exit | None = None

    @property
    def finished(self) -> bool:
        return self._exit is not None

    @property
    def leaves(self) -> bool:
        """Behind its last frame a command's client goes."""
        return self.finished

    def exit_code(self) -> int:
        """The program's own; ENDED when it did not come to its end."""
        return m.ENDED if self._exit is None else self._exit.code

    def start(self) -> bytes:
        return m.START_FRAME + m.frames(m.STDIN, self._text.encode("utf-8", "surrogateescape")) + m.STDIN_END_FRAME

    def feed(self, data: bytes) -> bytes:
        """What the gateway shows; answers what the client sends next: nothing."""
        for kind, payload in self._reader.feed(data):
            if kind == m.EXIT:
                self._exit = m.read_exit(payload)
        return b""
