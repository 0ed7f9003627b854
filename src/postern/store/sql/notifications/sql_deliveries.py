"""Queued events for sinks."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, delete, exists, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from postern.domain.event import EventKind
from postern.domain.lists import Page, Stretch
from postern.domain.sink import Delivery, DeliveryState, NewDelivery, Sink, SinkStatus, Trouble
from postern.errors import Misconfigured
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema.server_tables import deliveries, sinks
from postern.store.sql.long_lists import LongList, by_number, find_page
from postern.store.sql.notifications.sql_sinks import sink_of

log = logging.getLogger(__name__)

_TRIED = {"attempts": deliveries.c.attempts + 1}
_MAX_ERROR = 500  # characters


class SqlDeliveries:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption
        self._unreadable: set[UUID] = set()  # sinks of which this was said already

    async def add(self, delivery: NewDelivery) -> int:
        returning_insert = insert(deliveries).values(_row(delivery)).returning(deliveries.c.number)
        async with self._database.statement() as connection:
            return int((await connection.execute(returning_insert)).scalar_one())

    async def find(self, sink_id: UUID, state: DeliveryState | None, page: Page) -> Stretch[Delivery]:
        lead = [deliveries.c.sink_id == sink_id]
        if state is not None:
            lead.append(deliveries.c.state == state)
        listed = LongList(list(deliveries.c), by_number(deliveries.c.number), lead)
        async with self._database.plan_each() as statement:
            return await statement.run_sync(lambda connection: find_page(connection, listed, page, _delivery_of))

    async def due(self, now: datetime) -> list[Sink]:
        waits = exists().where(deliveries.c.sink_id == sinks.c.id, deliveries.c.state == DeliveryState.WAITING)
        is_time = or_(sinks.c.next_at.is_(None), sinks.c.next_at <= now)
        query = select(*sinks.c).where(sinks.c.status == SinkStatus.ACTIVE, is_time, waits)
        async with self._database.statement() as connection:
            longest_ago = sinks.c.delivered_at.asc().nulls_first()
            rows = (await connection.execute(query.order_by(longest_ago, sinks.c.id))).mappings().all()
        found_sinks = []
        for row in rows:
            try:
                found_sinks.append(await sink_of(row, self._encryption))
            except Misconfigured as error:
                if row["id"] not in self._unreadable:
                    self._unreadable.add(row["id"])
                    log.warning(
                        "the events of a sink wait until its settings can be decrypted: sink=%s error=%s",
                        row["id"],
                        error,
                    )
        return found_sinks

    async def waiting(self, sink_id: UUID, most: int, *, as_of: datetime | None = None) -> list[Delivery]:
        conditions = [deliveries.c.sink_id == sink_id, deliveries.c.state == DeliveryState.WAITING]
        if as_of is not None:
            same = (sinks.c.id == sink_id, sinks.c.status == SinkStatus.ACTIVE, sinks.c.updated_at == as_of)
            conditions.append(exists().where(*same))
        query = select(*deliveries.c).where(*conditions).order_by(deliveries.c.number).limit(most)
        async with self._database.statement() as connection:
            return [_delivery_of(row) for row in (await connection.execute(query)).mappings()]

    async def mark_delivered(self, sink_id: UUID, numbers: Sequence[int], at: datetime) -> None:
        done: dict[str, Any] = {"state": DeliveryState.DELIVERED, "error": "", "attempted_at": at, **_TRIED}
        fine = {"failures": 0, "failing_since": None, "error": "", "next_at": None, "delivered_at": at}

        def work(connection: Connection) -> None:
            connection.execute(update(deliveries).where(deliveries.c.number.in_(numbers)).values(done))
            connection.execute(update(sinks).where(sinks.c.id == sink_id).values(fine))

        await self._database.together(work)

    async def mark_failed(self, sink_id: UUID, number: int, trouble: Trouble, at: datetime, *, give_up: bool) -> None:
        error = trouble.error[:_MAX_ERROR]
        tried: dict[str, Any] = {"error": error, "attempted_at": at, **_TRIED}
        if give_up:
            tried["state"] = DeliveryState.GIVEN_UP
        sink_values = {
            "failures": trouble.failures,
            "failing_since": trouble.since,
            "error": error,
            "next_at": trouble.next_at,
        }

        def work(connection: Connection) -> None:
            connection.execute(update(deliveries).where(deliveries.c.number == number).values(tried))
            connection.execute(update(sinks).where(sinks.c.id == sink_id).values(sink_values))

        await self._database.together(work)

    async def mark_gone(self, sink_id: UUID, error: str, at: datetime) -> None:
        waiting = (deliveries.c.sink_id == sink_id, deliveries.c.state == DeliveryState.WAITING)
        lost = {"state": DeliveryState.GIVEN_UP, "error": error[:_MAX_ERROR], "attempted_at": at}

        def work(connection: Connection) -> None:
            values = {"status": SinkStatus.GONE, "error": error[:_MAX_ERROR]}
            connection.execute(update(sinks).where(sinks.c.id == sink_id).values(values))
            connection.execute(update(deliveries).where(*waiting).values(lost))

        await self._database.together(work)

    async def retry(self, sink_id: UUID, number: int | None) -> int:
        conditions = [deliveries.c.sink_id == sink_id]
        if number is None:
            conditions.append(deliveries.c.state == DeliveryState.GIVEN_UP)
        else:
            conditions += [deliveries.c.number == number, deliveries.c.state != DeliveryState.WAITING]
        anew = {"state": DeliveryState.WAITING, "attempts": 0, "error": ""}
        async with self._database.statement() as connection:
            return int((await connection.execute(update(deliveries).where(*conditions).values(anew))).rowcount)

    async def trim_queues(self, most: int, at: datetime) -> Mapping[UUID, int]:
        lost = {"state": DeliveryState.GIVEN_UP, "attempted_at": at, "error": f"more than {most} events were waiting"}
        given_up = {}
        for sink_id, too_old in await self._too_many(DeliveryState.WAITING, most):
            async with self._database.statement() as connection:
                done = await connection.execute(update(deliveries).where(*too_old).values(lost))
            given_up[sink_id] = int(done.rowcount)
        for _, too_old in await self._too_many(DeliveryState.GIVEN_UP, most):
            async with self._database.statement() as connection:
                await connection.execute(delete(deliveries).where(*too_old))
        return given_up

    async def _too_many(self, state: DeliveryState, most: int) -> list[tuple[UUID, Sequence[ColumnElement[bool]]]]:
        """Return sinks with more than `most` in this state, and the condition for the oldest of these."""
        column, condition = deliveries.c.sink_id, deliveries.c.state == state
        async with self._database.statement() as connection:
            crowded = select(column).where(condition).group_by(column).having(func.count() > most)
            sink_ids = (await connection.execute(crowded)).scalars().all()
        conditions: list[tuple[UUID, Sequence[ColumnElement[bool]]]] = []
        for sink_id in sink_ids:
            of_sink = (column == sink_id, condition)
            last = (
                select(deliveries.c.number).where(*of_sink).order_by(deliveries.c.number.desc()).offset(most).limit(1)
            )
            conditions.append((sink_id, (*of_sink, deliveries.c.number <= last.scalar_subquery())))
        return conditions

    async def prune(self, delivered_before: datetime, given_up_before: datetime) -> None:
        limits = {DeliveryState.DELIVERED: delivered_before, DeliveryState.GIVEN_UP: given_up_before}
        for state, before in limits.items():
            old = (deliveries.c.state == state, deliveries.c.attempted_at < before)
            async with self._database.statement() as connection:
                await connection.execute(delete(deliveries).where(*old))


def add_deliveries(connection: Connection, new: Sequence[NewDelivery]) -> None:
    """Add deliveries, as a part of a transaction, except for duplicates and those of deleted sinks."""
    if not new:
        return
    ids = {delivery.sink_id for delivery in new}
    there = set(connection.execute(select(sinks.c.id).where(sinks.c.id.in_(ids))).scalars())
    rows = [_row(new_delivery) for new_delivery in new if new_delivery.sink_id in there]
    if rows:
        query: Any = (sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert)(deliveries)
        connection.execute(query.on_conflict_do_nothing(index_elements=["sink_id", "event_id"]), rows)


def _row(new: NewDelivery) -> dict[str, Any]:
    return asdict(new) | {"state": DeliveryState.WAITING, "attempts": 0, "error": ""}


def _delivery_of(row: Any) -> Delivery:
    return Delivery(**{**row, "event": EventKind(row["event"]), "state": DeliveryState(row["state"])})
