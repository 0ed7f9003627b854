"""Access rules, with the groups they are for and the connections they list."""

from __future__ import annotations

from typing import Any

from postern.domain.rules.access_rule import AccessRule
from postern.store.prepared import Row
from postern.store.schema.target_tables import access_rule_connections, access_rule_groups, access_rules
from postern.store.sql.resource_table import ConnectionLinks, listed_ids, listed_names
from postern.store.sql.rules.rule_table import GroupLinks, RuleTable


class SqlAccessRules(RuleTable[AccessRule]):
    table, noun = access_rules, "access rule"
    groups = GroupLinks(access_rule_groups, {"": "groups"})
    links = (groups, ConnectionLinks(access_rule_connections))

    async def values(self, resource: AccessRule) -> dict[str, Any]:
        return {
            "name": resource.name,
            "description": resource.description,
            "connection_tags": dict(resource.connection_tags),
            "updated_at": resource.updated_at,
        }

    async def read(self, row: Row) -> AccessRule:
        times = ("created_at", "updated_at", "managed_by", "version")
        plain = ("id", "org_id", "name", "description", "connection_tags", *times)
        return AccessRule(
            **{name: row[name] for name in plain},
            groups=frozenset(self.groups.names(row)["groups"]),
            connection_ids=listed_ids(row),
            connection_names=listed_names(row),
        )
