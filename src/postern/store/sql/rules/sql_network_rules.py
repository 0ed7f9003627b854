"""Network rules, with the groups they are for and the connections they list."""

from __future__ import annotations

from typing import Any

from postern.domain.rules.network_rule import NetworkRule
from postern.store.prepared import Row
from postern.store.schema.target_tables import network_rule_connections, network_rule_groups, network_rules
from postern.store.sql.resource_table import ConnectionLinks, listed_ids, listed_names
from postern.store.sql.rules.rule_table import GroupLinks, RuleTable


class SqlNetworkRules(RuleTable[NetworkRule]):
    table, noun = network_rules, "network rule"
    groups = GroupLinks(network_rule_groups, {"": "groups"})
    links = (groups, ConnectionLinks(network_rule_connections))

    async def values(self, resource: NetworkRule) -> dict[str, Any]:
        return {
            "name": resource.name,
            "description": resource.description,
            "enabled": resource.enabled,
            "allowed_networks": list(resource.allowed_networks),
            "connection_tags": dict(resource.connection_tags),
            "updated_at": resource.updated_at,
        }

    async def read(self, row: Row) -> NetworkRule:
        plain = (
            *("id", "org_id", "name", "description", "enabled", "connection_tags"),
            *("created_at", "updated_at", "managed_by", "version"),
        )
        return NetworkRule(
            **{name: row[name] for name in plain},
            allowed_networks=tuple(row["allowed_networks"]),
            groups=frozenset(self.groups.names(row)["groups"]),
            connection_ids=listed_ids(row),
            connection_names=listed_names(row),
        )

    def needs(self, rule: NetworkRule, group: str) -> str | None:
        """Return why the rule needs the group: without any, it would be for everyone."""
        return "it is for no other group, and would be for everyone" if rule.groups == {group} else None
