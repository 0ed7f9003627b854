"""The keys by which SSH targets show who they are, for whoever dials: known ones are asked for, a first one is pinned.

Around the dialler, so that clients, scripts and errands are alike: nothing is sent to a target whose key is another
than before, and no session begins at one whose key could not be pinned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol
from uuid import UUID

from postern.domain.hook import HookOutcome
from postern.domain.rules.permit import Permit
from postern.domain.targets.connection import SSH, Connection
from postern.gateway.agent_dialers import ReachableAgent
from postern.relay.relay_hooks import Hook
from postern.relay.relay_target import Start, Target


class PinnedHostKeys(Protocol):
    async def find_known(self, connection: Connection) -> tuple[str, ...]:
        """In OpenSSH's form. Raises Unavailable."""

    async def pin(self, connection: Connection, key: str, session_id: UUID) -> None:
        """Raises Denied when another one is pinned, Conflict, Invalid, Unavailable."""


class Believing:
    """Implements `ReachableAgent` by another one."""

    def __init__(self, agent: ReachableAgent, host_keys: PinnedHostKeys) -> None:
        self._agent = agent
        self._host_keys = host_keys

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        """Raises what dialling and pinning raise."""
        connection = permit.connection
        if connection.protocol != SSH:
            return await self._agent.dial(permit, start, session_id)
        start = replace(start, host_keys=await self._host_keys.find_known(connection))
        target = await self._agent.dial(permit, start, session_id)
        met = target.parameters.get("host_key")
        if met is not None:
            try:
                await self._host_keys.pin(connection, met, session_id)
            except BaseException:
                target.stream.close()
                target.release()
                raise
        return target

    async def cancel(self, permit: Permit, target: Target) -> None:
        await self._agent.cancel(permit, target)

    async def hook(self, permit: Permit, session_id: UUID, hook: Hook) -> HookOutcome:
        return await self._agent.hook(permit, session_id, hook)
