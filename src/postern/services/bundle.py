"""All services over one set of ports, as the composition root hands them to the API and to workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from postern.services.access import Access
from postern.services.agents import Agents
from postern.services.audit import Audit
from postern.services.connections import Connections
from postern.services.credentials import Credentials
from postern.services.guardrails import GuardRails
from postern.services.passwords import Passwords
from postern.services.principals import Principals
from postern.services.sessions import Sessions
from postern.services.tokens import Tokens
from postern.store.ports import Clock, Recordings, Signals, Stores


@dataclass(frozen=True, slots=True)
class Services:
    access: Access
    agents: Agents
    audit: Audit
    connections: Connections
    credentials: Credentials
    guardrails: GuardRails
    principals: Principals
    sessions: Sessions
    signals: Signals
    now: Clock


def build_services(
    stores: Stores,
    signals: Signals,
    recordings: Recordings,
    now: Clock,
    *,
    compiles: Callable[[str], str | None],
    enforceable: frozenset[str],
    passwords: Passwords | None = None,
) -> Services:
    """`enforceable`: the subtypes that have a relay, on which rules take effect and scripts run.

    `compiles`: the check of a pattern, see GuardRails.
    """
    access = Access(stores.access, stores.connections, signals, now)
    tokens = Tokens(stores.keys, now)
    return Services(
        access=access,
        agents=Agents(stores.agents, stores.principals, now),
        audit=Audit(stores.audit, stores.principals, now),
        connections=Connections(
            stores.connections, stores.agents, stores.guardrails, signals, now, enforceable=enforceable
        ),
        credentials=Credentials(stores.credentials, stores.connections, signals, now, enforceable=enforceable),
        guardrails=GuardRails(
            stores.guardrails, stores.connections, signals, now, compiles=compiles, enforceable=enforceable
        ),
        principals=Principals(stores.principals, tokens, signals, now, passwords),
        sessions=Sessions(stores.sessions, stores.principals, access, recordings, signals, now, executable=enforceable),
        signals=signals,
        now=now,
    )
