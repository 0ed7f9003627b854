"""Whose signatures on SSH certificates count."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import case, delete, insert, or_, select
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Listed, Page
from postern.domain.ssh_certificate import SshAuthority
from postern.errors import Conflict
from postern.store.database import Database
from postern.store.prepared import Row
from postern.store.schema.ssh import ssh_authorities
from postern.store.sql.rows import as_uuid, count_of
from postern.store.sql.ssh_keys import key_values, public_key_of

_PLAIN = ("id", "org_id", "name", "created_at")


class SqlSshAuthorities:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, authority: SshAuthority) -> None:
        values = {name: getattr(authority, name) for name in _PLAIN} | key_values(authority.key)
        try:
            async with self._database.statement() as connection:
                await connection.execute(insert(ssh_authorities).values(values))
        except IntegrityError:
            raise Conflict(
                f"there is an authority {authority.name!r}, or this key vouches for an organisation already; choose "
                "another name, or another key for each organisation",
                field="name",
            ) from None

    async def get(self, org_id: UUID, name_or_id: str) -> SshAuthority | None:
        key, named = as_uuid(name_or_id), ssh_authorities.c.name == name_or_id
        meant = named if key is None else or_(named, ssh_authorities.c.id == key)
        wanted = select(ssh_authorities).where(ssh_authorities.c.org_id == org_id, meant)
        async with self._database.statement() as connection:
            found = await connection.execute(wanted.order_by(case((named, 0), else_=1)).limit(1))
            row = found.mappings().one_or_none()
        return None if row is None else _authority_of(row)

    async def find(self, org_id: UUID, page: Page) -> Listed[SshAuthority]:
        own = ssh_authorities.c.org_id == org_id
        wanted = select(ssh_authorities).where(own).order_by(ssh_authorities.c.name)
        async with self._database.statement() as connection:
            rows = (await connection.execute(wanted.limit(page.limit).offset(page.offset))).mappings().all()
            total = (await connection.execute(count_of(ssh_authorities, own))).scalar_one()
        return Listed([_authority_of(row) for row in rows], total)

    async def by_fingerprint(self, fingerprint: str) -> SshAuthority | None:
        wanted = select(ssh_authorities).where(ssh_authorities.c.fingerprint == fingerprint)
        async with self._database.statement() as connection:
            row = (await connection.execute(wanted)).mappings().one_or_none()
        return None if row is None else _authority_of(row)

    async def remove(self, authority_id: UUID) -> None:
        async with self._database.statement() as connection:
            await connection.execute(delete(ssh_authorities).where(ssh_authorities.c.id == authority_id))


def _authority_of(row: Row) -> SshAuthority:
    return SshAuthority(**{name: row[name] for name in _PLAIN}, key=public_key_of(row))
