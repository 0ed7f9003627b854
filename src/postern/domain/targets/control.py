"""What the gateway tells an agent over the control service, and how often the two say that they live."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

HEARTBEAT = 5.0  # seconds between two of them, both ways
SILENCE = 15.0  # seconds after which the other counts as gone


@dataclass(frozen=True, slots=True)
class Welcome:
    """Enrolled. `workers` are the relay workers that live now; the agent holds a tunnel to each."""

    agent_id: UUID
    tunnel_url: str
    workers: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class WorkersChanged:
    """All that live now."""

    workers: frozenset[UUID]


@dataclass(frozen=True, slots=True)
class Drain:
    """Take no new work; end when what there is has ended."""

    reason: str


AgentOrder = Welcome | WorkersChanged | Drain
