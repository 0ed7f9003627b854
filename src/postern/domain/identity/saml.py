"""A login by SAML 2.0: who we are to the identity provider, and what it says of somebody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from postern.domain.identity.identity import Identity


@dataclass(frozen=True, slots=True)
class ServiceProvider:
    """What an identity provider knows us by: our entity id, and the one URL that it may send people back to."""

    entity_id: str
    acs_url: str


@dataclass(frozen=True, slots=True)
class SamlLoginRequest:
    """`id` is what the answer must name. `relay_state` comes back beside the answer, untouched (at most 80 bytes)."""

    id: str
    relay_state: str
    force_authn: bool = False


@dataclass(frozen=True, slots=True)
class Asserted:
    """An assertion that was checked. It could be shown again until `usable_until`; `session_ends_at` is when the
    provider's own session of that person ends, where it says so."""

    identity: Identity
    assertion_id: str
    usable_until: datetime
    session_ends_at: datetime | None = None
