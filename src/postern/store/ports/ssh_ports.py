"""The stores of SSH: user keys, certificate authorities, host keys of targets."""

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
        """Add a key; False when its user has `most`. Raises Conflict for a duplicate name of the user, or key of the
        organisation."""

    async def get(self, org_id: UUID, user_id: UUID, called: str) -> SshKey | None:
        """Return the user's key of this name or fingerprint, or any user's key with this identifier. A name takes
        precedence."""

    async def find(self, org_id: UUID, user_id: UUID, page: Page, name: str | None = None) -> Listed[SshKey]:
        """Return keys by name, or the one of this name."""

    async def by_fingerprint(self, fingerprint: str) -> list[tuple[SshKey, Account, str]]:
        """Return one for each organisation that has it, with its user and the organisation's name. One statement."""

    async def holder(self, key_id: UUID) -> tuple[SshKey, Account] | None:
        """Return the key with its user. One statement."""

    async def touch(self, key_id: UUID, at: datetime) -> None: ...

    async def remove(self, key_id: UUID) -> bool:
        """Remove a key; False when it is gone."""


class SshAuthorityStore(NamedResourceStore[SshAuthority], Protocol):
    async def by_fingerprint(self, fingerprint: str) -> SshAuthority | None:
        """Return the authority with this key, of any organisation."""


class HostKeyStore(Protocol):
    async def get(self, connection_id: UUID, place: UUID) -> HostKey | None: ...

    async def pin(self, key: HostKey) -> HostKey:
        """Pin a key and return the pinned one: this, or an earlier one. Keys of the connection's former targets are
        removed.

        Raises Conflict when the connection's target has changed, or it was deleted.
        """

    async def forget(self, connection_id: UUID) -> None: ...
