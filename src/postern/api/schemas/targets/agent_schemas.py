"""Agents."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from postern.api.schemas.common import NamedResourceAnswer, ResourceBody
from postern.domain.targets.agent import FACTS, Agent, AgentMode


class AgentStatus(StrEnum):
    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"


class AgentRequest(ResourceBody):
    read_only: ClassVar[frozenset[str]] = ResourceBody.read_only | {"status", "last_seen", *FACTS}

    name: str
    mode: Annotated[AgentMode, Field(strict=False)] | None = Field(
        None,
        description="standard: serves connections that are created for it (default); embedded: declares its own",
    )


class AgentAnswer(NamedResourceAnswer):
    """An agent. What it reports about itself, from `version` on, is for administrators and auditors; null
    for others."""

    mode: AgentMode
    status: AgentStatus = Field(description="CONNECTED: it has a tunnel, or is part of the gateway's own processes")
    created_at: datetime
    updated_at: datetime | None = Field(description="When its key was created")
    last_seen: datetime | None
    version: str | None
    hostname: str | None
    platform: str | None
    machine_id: str | None
    kernel_version: str | None
    python_version: str | None

    @classmethod
    def from_agent(cls, agent: Agent, *, online: bool) -> AgentAnswer:
        """Return the answer about an agent; that of a new key has it."""
        same = ("id", "name", "mode", "created_at", "updated_at", "last_seen", "managed_by")
        values = {name: getattr(agent, name) for name in same} | {name: agent.facts.get(name) for name in FACTS}
        values["status"] = AgentStatus.CONNECTED if online else AgentStatus.DISCONNECTED
        return IssuedAgentKeyAnswer(**values, key=agent.key.reveal()) if agent.key else cls(**values)


class IssuedAgentKeyAnswer(AgentAnswer):
    """The only answers that contain the key."""

    key: str = Field(description="The value of POSTERN_KEY to start the agent; shown only once")
