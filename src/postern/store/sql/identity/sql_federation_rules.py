"""Federation rules, with the subjects of the service accounts that their programs act as."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import Select, null, select

from postern.domain.identity.federation import FederationRule
from postern.store.prepared import Row
from postern.store.schema.identity_tables import federation_rules, users
from postern.store.sql.resource_table import ResourceTable

_WRITTEN = (
    *("name", "account_id", "issuer_url", "audience", "login_duration_seconds", "allow_admin", "allow_reuse"),
    *("description", "updated_at"),
)


class SqlFederationRules(ResourceTable[FederationRule]):
    table, noun, most = federation_rules, "federation rule", 500

    def select_rows(self) -> Select[Any]:
        rows = select(*federation_rules.c, users.c.subject.label("service_account"))
        return rows.join(users, users.c.id == federation_rules.c.account_id)

    async def by_issuer(self, org_id: UUID, issuer_url: str) -> list[FederationRule]:
        return await self.select(federation_rules.c.org_id == org_id, federation_rules.c.issuer_url == issuer_url)

    async def values(self, resource: FederationRule) -> dict[str, Any]:
        values: dict[str, Any] = {name: getattr(resource, name) for name in _WRITTEN}
        claims = {name: list(patterns) for name, patterns in resource.claims.items()}
        jwks = null() if resource.jwks is None else dict(resource.jwks)
        return values | {"claims": claims, "algorithms": list(resource.algorithms), "jwks": jwks}

    async def read(self, row: Row) -> FederationRule:
        claims = {name: tuple(patterns) for name, patterns in row["claims"].items()}
        return FederationRule(**{**row, "claims": claims, "algorithms": tuple(row["algorithms"])})
