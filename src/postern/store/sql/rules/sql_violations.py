"""Violations of rules, until their events are queued (store/sql/sessions/sql_postprocessing.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.dialects import postgresql, sqlite

from postern.domain.rules.violation import Violation
from postern.store.database import Database
from postern.store.schema.server_tables import violations


class SqlViolations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, batch: Sequence[Violation]) -> None:
        rows = [asdict(violation) for violation in batch]
        query: Any = (sqlite.insert if self._database.is_sqlite else postgresql.insert)(violations)
        once = query.on_conflict_do_nothing(index_elements=["id"])

        def work(connection: Connection) -> None:
            connection.execute(once, rows)

        await self._database.together(work)
