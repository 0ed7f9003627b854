"""Queries of admission: each is one statement, since every connect runs them."""

from __future__ import annotations

import time
from typing import NamedTuple
from uuid import UUID

from sqlalchemy import and_, bindparam, literal, select

from postern.domain.identity.credential import Grant, Verifier
from postern.domain.identity.principal import PrincipalStatus, RoleGroups
from postern.domain.secret import Secret
from postern.domain.targets.connection import Extra, Toggle
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.ports.target_ports import ConnectionRuleSet, PermitStanding
from postern.store.prepared import PreparedStatement, RawRow, Row
from postern.store.schema.identity_tables import orgs, users
from postern.store.schema.target_tables import (
    connection_guardrails,
    connection_masking_rules,
    connections,
    credentials,
    guardrails,
    masking_rules,
)
from postern.store.sql.rows import (
    connection_of,
    groups_column,
    guardrail_ids_column,
    guardrail_of,
    masking_rule_of,
    prefix_columns,
    principal_of,
    role_groups_columns,
    split,
)

_VERIFIER = ("iterations", "salt", "stored_key", "server_key")

_GRANT = PreparedStatement(
    select(
        *prefix_columns(credentials, "credential_"),
        *prefix_columns(users, "principal_"),
        groups_column("principal_"),
        *role_groups_columns("principal_"),
        *prefix_columns(connections, "target_"),
        guardrail_ids_column("target_"),
    )
    .select_from(credentials)
    .join(users, users.c.id == credentials.c.user_id)
    .join(orgs, orgs.c.id == users.c.org_id)
    .join(connections, connections.c.id == credentials.c.connection_id)
    .where(credentials.c.username == bindparam("username"))
)

# Guardrails times masking rules: there are few of either, and one statement is all that this may cost.
_RULES = (
    select(
        connections.c.id.label("connection"),
        orgs.c.access_help,
        *prefix_columns(guardrails, "guardrail_"),
        *prefix_columns(masking_rules, "masking_"),
    )
    .select_from(connections)
    .join(orgs, orgs.c.id == connections.c.org_id)
    .outerjoin(connection_guardrails, connection_guardrails.c.connection_id == connections.c.id)
    .outerjoin(guardrails, and_(guardrails.c.id == connection_guardrails.c.guardrail_id, guardrails.c.enabled))
    .outerjoin(connection_masking_rules, connection_masking_rules.c.connection_id == connections.c.id)
    .outerjoin(masking_rules, masking_rules.c.id == connection_masking_rules.c.masking_rule_id)
    .where(connections.c.id == bindparam("connection_id"))
    .order_by(guardrails.c.name, masking_rules.c.name)
)


GRANT_AGE = 60.0  # seconds that a connection's secrets stay decrypted for further logins by the same credential
MOST_GRANTS = 256


class _CachedGrant(NamedTuple):
    raw_row: RawRow
    grant: Grant
    until: float  # on the monotonic clock


class SqlAccess:
    """Its statements are built once: building one costs more than SQLite takes to run it."""

    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption
        self._grants: dict[str, _CachedGrant] = {}  # by user name, the one that was used last at the end

    async def find_grant(self, username: str) -> Grant | None:
        """Read the row, always. Only what was read from an equal row before is not read again."""
        raw_rows = await self._database.run_direct(
            lambda connection: _GRANT.raw_rows(connection, {"username": username}), writes=False
        )
        if not raw_rows:
            self._grants.pop(username, None)
            return None
        cached = self._grants.pop(username, None)
        if cached is None or cached.raw_row != raw_rows[0] or time.monotonic() >= cached.until:
            grant = await self._read_grant(_GRANT.read(raw_rows[0]))
            cached = _CachedGrant(raw_rows[0], grant, time.monotonic() + GRANT_AGE)
        self._grants[username] = cached
        if len(self._grants) > MOST_GRANTS:
            del self._grants[next(iter(self._grants))]
        return cached.grant

    async def _read_grant(self, row: Row) -> Grant:
        return Grant(
            credential_id=row["credential_id"],
            username=row["credential_username"],
            verifier=Verifier(
                row["credential_iterations"],
                row["credential_salt"],
                row["credential_stored_key"],
                row["credential_server_key"],
            ),
            principal=principal_of(row, "principal_"),
            connection=await connection_of(row, self._encryption, "target_"),
            expires_at=row["credential_expires_at"],
            revoked_at=row["credential_revoked_at"],
            login_key=row["credential_login_key"] or b"",
        )

    async def rules_of(self, connection_id: UUID) -> ConnectionRuleSet | None:
        async with self._database.statement() as connection:
            result = await connection.execute(_RULES, {"connection_id": connection_id})
            rows = result.mappings().all()
        if not rows:
            return None
        rails = {row["guardrail_id"]: row for row in rows if row["guardrail_id"] is not None}
        masks = {row["masking_id"]: row for row in rows if row["masking_id"] is not None}
        return ConnectionRuleSet(
            tuple(guardrail_of(row, [connection_id], "guardrail_") for row in rails.values()),
            tuple(masking_rule_of(row, [connection_id], "masking_") for row in masks.values()),
            rows[0]["access_help"],
        )

    async def masking_key(self, org_id: UUID) -> Secret:
        return Secret((await self._encryption.derive(f"masking of organisation {org_id}")).hex())

    async def terminal_key(self) -> Secret:
        return Secret((await self._encryption.derive("terminals in browsers")).hex())

    async def client_authority_key(self) -> Secret:
        return Secret((await self._encryption.derive("authority of client certificates")).hex())

    async def standing(self, principal_id: UUID, connection_id: UUID, credential_id: UUID | None) -> PermitStanding:
        # One row whatever is missing: each table is joined to a row that is always there.
        anchor = select(literal(1).label("one")).subquery()
        query = (
            select(
                users.c.status,
                groups_column(),
                *role_groups_columns(),
                connections.c.access_mode_connect,
                connections.c.access_mode_exec,
                connections.c.access_mode_runbooks,
                connections.c.access_mode_web_terminal,
                *(connections.c[f"access_{extra}"] for extra in Extra),
                connections.c.connection_tags,
                credentials.c.id.label("credential"),
                credentials.c.expires_at,
                credentials.c.revoked_at,
            )
            .select_from(anchor)
            .outerjoin(users, users.c.id == principal_id)
            .outerjoin(orgs, orgs.c.id == users.c.org_id)
            .outerjoin(connections, connections.c.id == connection_id)
            .outerjoin(credentials, and_(credentials.c.id == credential_id, credentials.c.user_id == principal_id))
        )
        async with self._database.statement() as connection:
            row = (await connection.execute(query)).mappings().one()
        return PermitStanding(
            principal_active=None if row["status"] is None else row["status"] == PrincipalStatus.ACTIVE,
            access_mode_connect=_toggle(row["access_mode_connect"]),
            access_mode_exec=_toggle(row["access_mode_exec"]),
            access_mode_runbooks=_toggle(row["access_mode_runbooks"]),
            credential_expires_at=row["expires_at"],
            credential_revoked_at=row["revoked_at"],
            credential_exists=row["credential"] is not None,
            groups=frozenset(split(row["groups"])),
            role_groups=RoleGroups(row["admin_group"] or "", row["auditor_group"] or ""),
            connection_tags=row["connection_tags"] or {},
            extras=frozenset(extra for extra in Extra if row[f"access_{extra}"] == Toggle.ENABLED),
            access_mode_web_terminal=_toggle(row["access_mode_web_terminal"]),
        )


def _toggle(value: str | None) -> Toggle | None:
    return None if value is None else Toggle(value)
