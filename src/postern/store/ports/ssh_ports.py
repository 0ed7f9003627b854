"""What services of SSH need of the store: the keys of users, who signs their certificates, the keys of targets."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.identity.principal import Account
from postern.domain.identity.ssh_certificate import SshAuthority
from postern.domain.identity.ssh_key import SshKey
from postern.domain.lists import Listed, Page
from postern.domain.targets.host_key import HostKey
from postern.store.ports.named_resource_ports import NamedResourceStore


class SshKeyStore(Protocol):
    async def add(self, key: SshKey, most: int) -> bool:
        """False when its user has `most` already. Raises Conflict where the user has one of that name, or the
        organisation has this key."""

    async def get(self, org_id: UUID, user_id: UUID, called: str) -> SshKey | None:
        """Return the user's key of this name or fingerprint, or anybody's with this identifier. A name wins."""

    async def find(self, org_id: UUID, user_id: UUID, page: Page, name: str | None = None) -> Listed[SshKey]:
        """By name, or the one of this name."""

    async def by_fingerprint(self, fingerprint: str) -> list[tuple[SshKey, Account, str]]:
        """One for each organisation that has it, with whose it is and the organisation's name. One statement."""

    async def holder(self, key_id: UUID) -> tuple[SshKey, Account] | None:
        """One statement."""

    async def touch(self, key_id: UUID, at: datetime) -> None: ...

    async def remove(self, key_id: UUID) -> bool:
        """False when it is gone."""


class SshAuthorityStore(NamedResourceStore[SshAuthority], Protocol):
    async def by_fingerprint(self, fingerprint: str) -> SshAuthority | None:
        """Return the authority with this key, of whichever organisation."""


class HostKeyStore(Protocol):
    async def get(self, connection_id: UUID, place: UUID) -> HostKey | None: ...

    async def pin(self, key: HostKey) -> HostKey:
        """The one that is pinned there now: this, or the one that was first. What was pinned for other places of the
        connection goes. Raises Conflict when the connection leads elsewhere by now, or was deleted."""

    async def forget(self, connection_id: UUID) -> None: ...
