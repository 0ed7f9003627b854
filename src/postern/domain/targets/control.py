"""Messages of the gateway to an agent over the control service, and the heartbeat interval of both."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

HEARTBEAT = 5.0  # seconds between two of them, both ways
SILENCE = 15.0  # seconds after which the other counts as gone


@dataclass(frozen=True, slots=True)
class Welcome:
    """The agent is enrolled. `workers` are the live relay workers; the agent holds a tunnel to each."""

    agent_id: UUID
    tunnel_url: str
    workers: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """All live relay workers."""

    workers: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Drain:
    """Take no new work; end when the present work has ended."""

    reason: str


AgentOrder = Welcome | WorkersChanged | Drain
