"""Runbook rules, with the groups they are for and the connections they list."""

from __future__ import annotations

from typing import Any

from postern.domain.runbook import RunbookPattern, RunbookRule
from postern.store.prepared import Row
from postern.store.schema.runbook_tables import runbook_rule_connections, runbook_rule_groups, runbook_rules
from postern.store.sql.resource_table import ConnectionLinks, listed_ids, listed_names
from postern.store.sql.rules.rule_table import GroupLinks, RuleTable


class SqlRunbookRules(RuleTable[RunbookRule]):
    table, noun = runbook_rules, "runbook rule"
    groups = GroupLinks(runbook_rule_groups, {"": "groups"})
    links = (groups, ConnectionLinks(runbook_rule_connections))

    async def values(self, resource: RunbookRule) -> dict[str, Any]:
        return {
            "name": resource.name,
            "description": resource.description,
            "runbooks": [{"repository": runbook.repository, "name": runbook.name} for runbook in resource.runbooks],
            "everywhere": not resource.connection_ids and not resource.nowhere,
            "updated_at": resource.updated_at,
        }

    async def read(self, row: Row) -> RunbookRule:
        plain = ("id", "org_id", "name", "description", "created_at", "updated_at", "managed_by", "version")
        listed = listed_ids(row)
        return RunbookRule(
            **{name: row[name] for name in plain},
            runbooks=tuple(RunbookPattern(values["repository"], values["name"]) for values in row["runbooks"]),
            connection_ids=listed,
            connection_names=listed_names(row),
            groups=frozenset(self.groups.names(row)["groups"]),
            nowhere=not listed and not row["everywhere"],
        )

    def needs(self, rule: RunbookRule, group: str) -> str | None:
        return (
            "it is the only group of the rule, which without a group applies to all users"
            if rule.groups == {group}
            else None
        )
