"""Pinning of the host keys of SSH targets: known keys are required, and a first one is stored.

This wraps the dialler, so that clients, scripts and connection tests behave alike. Nothing is sent to a target whose
key has changed, and no session starts if a new key could not be stored.
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
        """Return the pinned keys in OpenSSH's form. Raises Unavailable."""

    async def pin(self, connection: Connection, key: str, session_id: UUID) -> None:
        """Pin a key. Raises Denied when another one is pinned, Conflict, Invalid, Unavailable."""


class HostKeyPinningAgent:
    """A `ReachableAgent` that adds pinning to another one."""

    def __init__(self, agent: ReachableAgent, host_keys: PinnedHostKeys) -> None:
        self._agent = agent
        self._host_keys = host_keys

    async def dial(self, permit: Permit, start: Start, session_id: UUID) -> Target:
        """Dial with the pinned keys. Raises the errors of dialling and pinning."""
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
