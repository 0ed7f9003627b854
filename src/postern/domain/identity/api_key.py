"""An API key: a long-lived secret of a program, shown once and kept as a hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.networks import contains
from postern.domain.identity.principal import Account, PrincipalKind
from postern.domain.secret import NO_SECRET, Secret

PREFIX = "pst_"  # tells secret scanners, and our own door, what this is


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key that acts as `account`: a service account, or a principal of its own.

    `shown` is the key's beginning, to recognise it by. `created_by` is the e-mail address of its creator, and
    `maker_id` their principal, unless it is older than that field. `allowed_networks` are CIDR texts; an empty list
    allows every address. `secret` is the key itself, empty except right after its creation.
    """

    id: UUID
    org_id: UUID
    account: Account
    name: str
    shown: str
    allowed_networks: tuple[str, ...]
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    revoked_by: str | None = None
    maker_id: UUID | None = None
    updated_at: datetime | None = None
    version: int = 1
    secret: Secret = NO_SECRET
    managed_by: str | None = None

    @property
    def acts_for_itself(self) -> bool:
        return self.account.principal.kind is PrincipalKind.API_KEY

    def is_live(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def allows(self, address: str) -> bool:
        """Return whether the address is allowed; False for one that cannot be parsed, when there is a limit at all."""
        return not self.allowed_networks or contains(self.allowed_networks, address)


def digest_of(key: Secret) -> bytes:
    """Return the hash of a key, as stored."""
    return hashlib.sha256(key.reveal().encode()).digest()
