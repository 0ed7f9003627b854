"""Agents that are not connected to the gateway, so that their connections cannot be used."""

from __future__ import annotations

from collections.abc import Sequence

from postern.cli.doctor.finding import DoctorFinding, warning
from postern.domain.targets.agent import AgentMode

_MOST_SHOWN = 5  # connections
_DO = {
    AgentMode.STANDARD: "run `postern agent` on its machine; `postern doctor --agent` there shows why it is offline",
    AgentMode.EMBEDDED: "run `postern run` in its container; `postern doctor --agent` there shows why it is offline",
    AgentMode.GATEWAY: "on the gateway's machine: postern doctor --gateway",
}


def offline(name: str, mode: str, connections: Sequence[str]) -> list[DoctorFinding]:
    """Report an agent that is offline. `connections` are the names of those that it serves."""
    names = ", ".join(connections[:_MOST_SHOWN])
    more = f" and {len(connections) - _MOST_SHOWN} more" if len(connections) > _MOST_SHOWN else ""
    why = f"these connections cannot be used: {names}{more}" if connections else "it can serve no connection"
    return warning("agents", f"agent {name!r} is offline", why, _DO[AgentMode(mode)])
