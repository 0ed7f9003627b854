"""Guardrails, with the connections that they apply to."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from postern.domain.rules.guardrail import Guardrail
from postern.store.prepared import Row
from postern.store.schema.target_tables import connection_guardrails, guardrails
from postern.store.sql.resource_table import ConnectionLinks, ResourceTable, listed_ids
from postern.store.sql.rows import guardrail_of, guardrail_values
from postern.store.threaded import Executor


class SqlGuardrails(ResourceTable[Guardrail]):
    table, noun = guardrails, "guardrail"
    connections = ConnectionLinks(connection_guardrails, "guardrail_id", is_mutual=True)
    links = (connections,)

    async def values(self, resource: Guardrail) -> dict[str, Any]:
        return guardrail_values(resource)

    async def read(self, row: Row) -> Guardrail:
        return guardrail_of(row, sorted(listed_ids(row)))

    async def before_removal(self, transaction: Executor, resource: Guardrail) -> None:
        await transaction.execute(select(guardrails.c.id).where(guardrails.c.id == resource.id).with_for_update())
        await self.connections.count_change(transaction, resource.id, ())
