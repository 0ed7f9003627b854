"""The trusted authorities of SSH certificates."""

from __future__ import annotations

from typing import Any

from postern.domain.identity.ssh_certificate import SshAuthority
from postern.store.prepared import Row
from postern.store.schema.ssh_tables import ssh_authorities
from postern.store.sql.identity.sql_ssh_keys import key_values, public_key_of
from postern.store.sql.resource_table import ResourceTable

_PLAIN = ("id", "org_id", "name", "created_at", "updated_at", "managed_by", "version")


class SqlSshAuthorities(ResourceTable[SshAuthority]):
    table, noun = ssh_authorities, "SSH authority"

    async def by_fingerprint(self, fingerprint: str) -> SshAuthority | None:
        """Return the authority with this key, of any organisation."""
        authorities = await self.select(self.table.c.fingerprint == fingerprint)
        return authorities[0] if authorities else None

    async def values(self, resource: SshAuthority) -> dict[str, Any]:
        return {"name": resource.name, "updated_at": resource.updated_at, **key_values(resource.key)}

    async def read(self, row: Row) -> SshAuthority:
        return SshAuthority(**{name: row[name] for name in _PLAIN}, key=public_key_of(row))

    def conflict_message(self, resource: SshAuthority) -> str:
        return (
            f"name: SSH authority {resource.name!r} exists already, or an organisation already trusts its key; "
            "choose another name, or another key for each organisation"
        )
