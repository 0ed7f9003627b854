"""Agents."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.targets.agent import FACTS, Agent, AgentMode


class AgentStatus(StrEnum):
    CONNECTED = "CONNECTED"
    DISCONNECTED = "DISCONNECTED"


class AgentRequest(Body):
    read_only: ClassVar[frozenset[str]] = frozenset({"id", "status", "created_at", "last_seen", *FACTS})

    name: str
    mode: Annotated[AgentMode, Field(strict=False)] = Field(
        AgentMode.STANDARD,
        description="standard: serves the connections that are made for it; embedded: declares its own",
    )


class AgentAnswer(Answer):
    """What it says of itself, from `version` on, is for administrators and auditors; null for others."""

    id: UUID
    name: str
    mode: AgentMode
    status: AgentStatus = Field(description="CONNECTED: it holds a tunnel, or lives in the gateway's own processes")
    created_at: datetime
    last_seen: datetime | None
    version: str | None
    hostname: str | None
    platform: str | None
    machine_id: str | None
    kernel_version: str | None
    python_version: str | None

    @classmethod
    def of(cls, agent: Agent, *, online: bool) -> AgentAnswer:
        return cls(
            id=agent.id,
            name=agent.name,
            mode=agent.mode,
            status=AgentStatus.CONNECTED if online else AgentStatus.DISCONNECTED,
            created_at=agent.created_at,
            last_seen=agent.last_seen,
            version=agent.facts.get("version"),
            hostname=agent.facts.get("hostname"),
            platform=agent.facts.get("platform"),
            machine_id=agent.facts.get("machine_id"),
            kernel_version=agent.facts.get("kernel_version"),
            python_version=agent.facts.get("python_version"),
        )


class IssuedAgentKeyAnswer(AgentAnswer):
    """The only answers that hold the key."""

    key: str = Field(description="What the agent is started with, as POSTERN_KEY; shown this once")
