"""The commands that opened cursors, so that a getMore is judged, recorded and masked as one of them.

A cursor belongs to the server, and not to a connection: a getMore can come on another connection of the same client.
One registry therefore serves all links of a worker. A cursor that was opened through another worker is unknown here.
Clients that use the gateway as a load balancer (`loadBalanced=true`) read a cursor on the connection that opened it.

An entry belongs to one principal and one connection (target), so that no user is judged by another's command.
"""

from __future__ import annotations

from typing import Final

MAX_CURSORS: Final = 20_000
MAX_CHARACTERS: Final = 32 << 20  # of all texts
MAX_TEXT: Final = 256 * 1024  # characters of one command; a getMore of a longer one is one of an unknown cursor


class CursorRegistry:
    """All open cursors of a worker. The oldest are forgotten when there are too many."""

    def __init__(self, max_cursors: int = MAX_CURSORS, max_characters: int = MAX_CHARACTERS) -> None:
        self._texts: dict[tuple[str, str, int], str] = {}
        self._characters = 0
        self._max_cursors = max_cursors
        self._max_characters = max_characters

    def __len__(self) -> int:
        return len(self._texts)

    def of(self, principal: str, connection: str) -> Cursors:
        """Return the cursors of a principal on a connection."""
        return Cursors(self, principal, connection)

    def store(self, key: tuple[str, str, int], text: str) -> None:
        """Store a cursor's command as the newest."""
        self.discard(key)
        if not text or len(text) > MAX_TEXT:
            return
        self._texts[key] = text
        self._characters += len(text)
        while self._characters > self._max_characters or len(self._texts) > self._max_cursors:
            self.discard(next(iter(self._texts)))

    def find(self, key: tuple[str, str, int]) -> str:
        """Return a cursor's command; empty if it is unknown."""
        return self._texts.get(key, "")

    def discard(self, key: tuple[str, str, int]) -> None:
        self._characters -= len(self._texts.pop(key, ""))


class Cursors:
    """The open cursors of one principal on one connection, in one worker."""

    def __init__(self, registry: CursorRegistry, principal: str, connection: str) -> None:
        self._registry = registry
        self._principal = principal
        self._connection = connection

    def store(self, cursor: int, text: str) -> None:
        """Store the command that opened a cursor."""
        self._registry.store((self._principal, self._connection, cursor), text)

    def find(self, cursor: int) -> str:
        """Return the command that opened a cursor; empty if it is unknown."""
        return self._registry.find((self._principal, self._connection, cursor))

    def discard(self, cursor: int) -> None:
        """Forget a cursor that is exhausted or killed."""
        self._registry.discard((self._principal, self._connection, cursor))
