"""Masking rules, with the connections that they apply to."""

from __future__ import annotations

from typing import Any

from postern.domain.rules.masking import MaskingRule
from postern.store.prepared import Row
from postern.store.schema.target_tables import connection_masking_rules, masking_rules
from postern.store.sql.resource_table import ConnectionLinks, ResourceTable, listed_ids
from postern.store.sql.rows import masking_rule_of, masking_rule_values


class SqlMaskingRules(ResourceTable[MaskingRule]):
    table, noun = masking_rules, "masking rule"
    connections = ConnectionLinks(connection_masking_rules, "masking_rule_id")
    links = (connections,)

    async def values(self, resource: MaskingRule) -> dict[str, Any]:
        return masking_rule_values(resource)

    async def read(self, row: Row) -> MaskingRule:
        return masking_rule_of(row, sorted(listed_ids(row)))
