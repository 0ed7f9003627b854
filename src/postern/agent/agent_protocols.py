"""The agent's interface to a protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.protocols.registry import PROTOCOLS
from postern.relay.orders import Order
from postern.relay.relay_target import Target


class Targets(Protocol):
    """One kind of targets. The caller has resolved the secrets, and releases them."""

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target: ...

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None: ...


class AgentSpec(Protocol):
    @property
    def has_cancel(self) -> bool: ...

    @property
    def needs_secret_files(self) -> bool: ...

    @property
    def targets(self) -> Callable[[LocalPolicy, Mapping[str, str]], Targets]: ...


AGENT_SPECS: Final[Mapping[str, AgentSpec]] = PROTOCOLS
