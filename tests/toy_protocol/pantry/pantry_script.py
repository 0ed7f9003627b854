"""What `postern exec` sends: each line of a script is a request, and the script ends with its last answer."""

from __future__ import annotations

from postern.protocols.pantry.pantry_lines import QUIT, Lines


class PantryScript:
    def __init__(self, text: str) -> None:
        self._requests = [line for line in text.splitlines() if line.strip()]
        self._lines = Lines(1 << 30)
        self._answers = 0
        self._has_failed = False

    @property
    def finished(self) -> bool:
        return self._answers >= len(self._requests)

    @property
    def leaves(self) -> bool:
        return False  # it says QUIT

    def exit_code(self) -> int:
        """Return 0 when all requests were done, else 1."""
        return int(self._has_failed or not self.finished)

    def start(self) -> bytes:
        return "".join(f"{line}\n" for line in self._requests).encode()

    def feed(self, data: bytes) -> bytes:
        """Take what the gateway shows; return what the client sends next."""
        self._lines.feed(data)
        while (line := self._lines.next()) is not None:
            self._answers += not line.startswith(b"NOTE ")
            self._has_failed = self._has_failed or line.startswith(b"ERROR ")
        return QUIT if self.finished else b""
