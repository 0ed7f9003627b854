"""Cached permit of an SSH connection, refreshed when access rules change.

A permit is valid for any number of sessions as long as no signal was received that may have ended or changed it.
`LinkRegistry.changes` is the same counter that links compare when they are added later. So no channel starts under an
outdated policy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from postern.domain.rules.permit import Permit
from postern.gateway.clients.session_setup import ClientSession
from postern.gateway.link_registry import LinkRegistry


class CachedPermit:
    """The cached permit.

    `admit` requests the first permit, which may wait for an approval. `again` requests a later one with the user's
    current state. `since` is `links.changes` from before authentication: the result is valid until it changes.
    """

    def __init__(self, links: LinkRegistry, admit: Callable[..., Awaitable[Permit]], since: int) -> None:
        self._links = links
        self._admit = admit
        self._known_since = self._since = since
        self._permit: Permit | None = None
        self._turn = asyncio.Lock()

    async def permit(self, client: ClientSession) -> Permit:
        """Return the permit. One channel requests it, and others wait for its result. Raises the errors of
        admission."""
        async with self._turn:
            client.check()  # the client may have disconnected meanwhile
            if not self._holds():
                self._permit = None
                since = self._links.changes
                self._permit = await self._admit(client, again=since != self._known_since)
                self._since = since
            client.since = self._since
            assert self._permit is not None
            return self._permit

    def _holds(self) -> bool:
        permit = self._permit
        if permit is None or self._since != self._links.changes:
            return False
        return permit.expires_at is None or datetime.now(UTC) < permit.expires_at
