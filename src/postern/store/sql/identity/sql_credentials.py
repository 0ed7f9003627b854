"""Connection credentials: verifiers only, never a password."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from sqlalchemy import ColumnElement, RowMapping, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from postern.domain.identity.credential import Credential, IssuedCredential, Verifier
from postern.domain.lists import Page, Stretch
from postern.errors import Conflict, Unauthenticated
from postern.store.database import Database
from postern.store.schema.identity_tables import logins, users
from postern.store.schema.target_tables import connections, credentials
from postern.store.sql.long_lists import LongList, by_time, find_page
from postern.store.threaded import Executor

_FIELDS = (
    *("id", "org_id", "user_id", "connection_id", "username"),
    *("created_at", "expires_at", "revoked_at", "maker_id", "login_id"),
)
_COLUMNS = [credentials.c[name] for name in _FIELDS]
_SHOWN = select(*_COLUMNS)


class SqlCredentials:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, credential: Credential, verifier: Verifier, login_key: bytes = b"") -> None:
        values = {name: getattr(credential, name) for name in _FIELDS}
        values |= {name: getattr(verifier, name) for name in ("iterations", "salt", "stored_key", "server_key")}
        values["login_key"] = login_key or None
        try:
            async with self._database.transaction() as transaction:
                if credential.login_id is not None:
                    await _require_live(transaction, credential.login_id)
                await transaction.execute(insert(credentials).values(values))
        except IntegrityError:
            raise Conflict(f"the credential {credential.username!r} could not be added; try again") from None

    async def was_opened(self, user_id: UUID, connection_id: UUID) -> bool:
        own = (credentials.c.connection_id == connection_id, credentials.c.user_id == user_id)
        query = select(credentials.c.id).where(*own, credentials.c.login_id.is_not(None)).limit(1)
        async with self._database.statement() as connection:
            return (await connection.execute(query)).scalar_one_or_none() is not None

    async def get(self, org_id: UUID, credential_id: UUID) -> Credential | None:
        query = _SHOWN.where(credentials.c.org_id == org_id, credentials.c.id == credential_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one_or_none()
        return None if row is None else _credential_of(row)

    async def of_connection(
        self, org_id: UUID, connection_id: UUID, user_id: UUID | None, page: Page
    ) -> Stretch[Credential]:
        lead = [credentials.c.org_id == org_id, credentials.c.connection_id == connection_id]
        if user_id is not None:
            lead.append(credentials.c.user_id == user_id)
        listed = LongList(_COLUMNS, by_time(credentials.c.created_at, credentials.c.id), lead)
        async with self._database.plan_each() as statement:
            return await statement.run_sync(lambda connection: find_page(connection, listed, page, _credential_of))

    async def of_user(self, org_id: UUID, user_id: UUID) -> list[tuple[Credential, str]]:
        query = (
            _SHOWN.add_columns(connections.c.name.label("connection"))
            .join(connections, connections.c.id == credentials.c.connection_id)
            .where(credentials.c.org_id == org_id, credentials.c.user_id == user_id)
            .order_by(credentials.c.created_at.desc(), credentials.c.id)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [(_credential_of(row), row["connection"]) for row in rows]

    async def own(
        self, org_id: UUID, user_id: UUID, page: Page, valid_at: datetime | None
    ) -> Stretch[tuple[Credential, str]]:
        lead = [credentials.c.org_id == org_id, credentials.c.user_id == user_id]
        name = select(connections.c.name).where(connections.c.id == credentials.c.connection_id)
        columns = [*_COLUMNS, name.correlate(credentials).scalar_subquery().label("connection")]
        keyset = by_time(credentials.c.created_at, credentials.c.id)
        listed = LongList(columns, keyset, lead, [] if valid_at is None else valid_conditions(valid_at))
        async with self._database.plan_each() as statement:
            return await statement.run_sync(
                lambda connection: find_page(
                    connection, listed, page, lambda row: (_credential_of(row), row["connection"])
                )
            )

    async def issued_by(self, org_id: UUID, maker_id: UUID) -> list[IssuedCredential]:
        query = (
            _SHOWN.add_columns(connections.c.name.label("connection"), users.c.name.label("holder"))
            .join(connections, connections.c.id == credentials.c.connection_id)
            .join(users, users.c.id == credentials.c.user_id)
            .where(credentials.c.org_id == org_id, credentials.c.maker_id == maker_id, users.c.id != maker_id)
            .order_by(credentials.c.created_at.desc(), credentials.c.id)
        )
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [IssuedCredential(_credential_of(row), row["holder"], row["connection"]) for row in rows]

    async def revoke(self, credential_id: UUID, at: datetime) -> bool:
        statement = (
            update(credentials)
            .where(credentials.c.id == credential_id, credentials.c.revoked_at.is_(None))
            .values(revoked_at=at)
        )
        async with self._database.statement() as connection:
            return (await connection.execute(statement)).rowcount == 1

    async def expire(self, credential_id: UUID, at: datetime) -> None:
        later = or_(credentials.c.expires_at.is_(None), credentials.c.expires_at > at)
        statement = update(credentials).where(credentials.c.id == credential_id, later).values(expires_at=at)
        async with self._database.statement() as connection:
            await connection.execute(statement)


async def _require_live(transaction: Executor, login_id: UUID) -> None:
    """Lock the login until the credential is added, so that the end of the login revokes it, too. Raises
    Unauthenticated for a login that has ended."""
    live = select(logins.c.id).where(logins.c.id == login_id, logins.c.ended_at.is_(None)).with_for_update(read=True)
    if (await transaction.execute(live)).scalar_one_or_none() is None:
        raise Unauthenticated("this login has ended; log in again")


def valid_conditions(at: datetime) -> list[ColumnElement[bool]]:
    """Return the condition for credentials that are neither revoked nor expired."""
    expires_later = or_(credentials.c.expires_at.is_(None), credentials.c.expires_at > at)
    return [credentials.c.revoked_at.is_(None), expires_later]


def _credential_of(row: RowMapping) -> Credential:
    return Credential(**{name: row[name] for name in _FIELDS})
