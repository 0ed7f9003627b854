"""A login by SAML 2.0: the gateway as a service provider, and the verified assertion."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from postern.domain.identity.identity import Identity


@dataclass(frozen=True, slots=True)
class ServiceProvider:
    """The gateway as an identity provider knows it: entity id, and the one URL to which it can send users back."""

    entity_id: str
    acs_url: str


@dataclass(frozen=True, slots=True)
class SamlLoginRequest:
    """A request. The answer must name its `id`; `relay_state` comes back beside it, unchanged (at most 80 bytes)."""

    id: str
    relay_state: str
    force_authn: bool = False


@dataclass(frozen=True, slots=True)
class Asserted:
    """A verified assertion. It could be replayed until `usable_until`; `session_ends_at` is the end of the
    provider's own session, if given."""

    identity: Identity
    assertion_id: str
    usable_until: datetime
    session_ends_at: datetime | None = None
