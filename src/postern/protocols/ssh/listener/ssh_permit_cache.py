"""What one SSH connection may: it is asked for once, and anew when something has changed since.

A permit is good for any number of sessions as long as nothing was signalled that may have ended or changed it: the
same moment, `LinkRegistry.changes`, from which a link that is added later makes up for what it missed. So no channel
begins under a policy that holds no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from postern.domain.rules.permit import Permit
from postern.gateway.clients.session_setup import ClientSession
from postern.gateway.link_registry import LinkRegistry


class Right:
    """`admit` asks for a permit, `again` by who its owner is then; it may wait for people. `since` is `links.changes`
    from before it was known who that is: what was known then is good as long as nothing has changed."""

    def __init__(self, links: LinkRegistry, admit: Callable[..., Awaitable[Permit]], since: int) -> None:
        self._links = links
        self._admit = admit
        self._known_since = self._since = since
        self._permit: Permit | None = None
        self._turn = asyncio.Lock()

    async def permit(self, client: ClientSession) -> Permit:
        """One channel asks, the others wait for what it hears. Raises what admission does."""
        async with self._turn:
            client.check()  # it may have gone meanwhile
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
