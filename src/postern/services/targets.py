"""The services that are about targets and the way to them, built together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from postern.services.access import Access
from postern.services.agents import Agents
from postern.services.connections import Connections
from postern.services.credentials import Credentials
from postern.services.guardrails import GuardRails
from postern.services.server.features import Features
from postern.services.sessions import Sessions
from postern.store.ports import Clock, Recordings, Signals, Stores


@dataclass(frozen=True)
class TargetServices:
    access: Access
    agents: Agents
    connections: Connections
    credentials: Credentials
    guardrails: GuardRails
    sessions: Sessions


def build_targets(
    stores: Stores,
    signals: Signals,
    recordings: Recordings,
    now: Clock,
    features: Features,
    *,
    compiles: Callable[[str], str | None],
    enforceable: frozenset[str],
) -> TargetServices:
    """`compiles` and `enforceable`: see `build_services`."""
    connections = stores.connections
    access = Access(stores.access, connections, features, signals, now)
    return TargetServices(
        access=access,
        agents=Agents(stores.agents, stores.organisations, now),
        connections=Connections(connections, stores.agents, stores.guardrails, signals, now, enforceable=enforceable),
        credentials=Credentials(stores.credentials, connections, features, signals, now, enforceable=enforceable),
        guardrails=GuardRails(stores.guardrails, connections, signals, now, compiles=compiles, enforceable=enforceable),
        sessions=Sessions(
            stores.sessions, stores.principals, access, recordings, features, signals, now, executable=enforceable
        ),
    )
