"""Checkpoints, their signing keys, and their delivery to anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection, Row, func, insert, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from postern.domain.lists import Page, Stretch
from postern.domain.sessions.ledger import AnchorState, Checkpoint, LedgerEntry, LedgerKey, LedgerProgress
from postern.errors import Malformed, Misconfigured
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.schema.identity_tables import orgs
from postern.store.schema.recording_tables import checkpoint_anchors, checkpoints, ledger, ledger_keys
from postern.store.sql.locking import one_at_a_time
from postern.store.sql.long_lists import LongList, by_number, find_page
from postern.store.sql.recordings.raw_rows import Decoder, raw
from postern.store.sql.recordings.sql_ledger import LedgerTaken, append, checkpoint_of
from postern.store.sql.rows import count_of


class SqlCheckpoints:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def standings(self) -> list[LedgerProgress]:
        """Return the progress by look-ups at the ends of indices, however long a ledger is."""
        entries = select(func.max(ledger.c.number)).where(ledger.c.org_id == orgs.c.id).scalar_subquery()
        condition = checkpoints.c.org_id == orgs.c.id
        newest = select(func.max(checkpoints.c.number)).where(condition).scalar_subquery()
        at = select(checkpoints.c.at).where(condition).order_by(checkpoints.c.number.desc()).limit(1).scalar_subquery()
        query = select(orgs.c.id, entries.label("entries"), newest.label("newest"), at.label("at"))
        async with self._database.statement() as connection:
            rows = (await connection.execute(query.order_by(orgs.c.id))).all()
        return [LedgerProgress(row.id, row.entries or 0, row.newest or 0, row.at) for row in rows]

    async def newest(self, org_id: UUID) -> Checkpoint | None:
        query = select(*checkpoints.c).where(checkpoints.c.org_id == org_id)
        async with self._database.statement() as connection:
            row = (await connection.execute(query.order_by(checkpoints.c.number.desc()).limit(1))).one_or_none()
        return None if row is None else checkpoint_of(row)

    async def find(self, org_id: UUID, page: Page) -> Stretch[tuple[Checkpoint, list[AnchorState]]]:
        condition = checkpoints.c.org_id == org_id
        listed = LongList(list(checkpoints.c), by_number(checkpoints.c.number), [condition])
        async with self._database.plan_each() as statement:
            stretch = await statement.run_sync(
                lambda connection: find_page(connection, listed, page, lambda row: Checkpoint(**row))
            )
        states = await self._anchors(org_id, [item.number for item in stretch.items])
        items = [(checkpoint, states[checkpoint.number]) for checkpoint in stretch.items]
        return Stretch(items, stretch.total, stretch.total_is_capped, stretch.next)

    async def covering(self, org_id: UUID, entry: int) -> tuple[Checkpoint, list[AnchorState]] | None:
        query = select(*checkpoints.c).where(checkpoints.c.org_id == org_id, checkpoints.c.number >= entry)
        async with self._database.statement() as connection:
            row = (await connection.execute(query.order_by(checkpoints.c.number).limit(1))).one_or_none()
        if row is None:
            return None
        return checkpoint_of(row), (await self._anchors(org_id, [row.number]))[row.number]

    async def _anchors(self, org_id: UUID, numbers: Sequence[int]) -> dict[int, list[AnchorState]]:
        """Return the anchors of checkpoints, by their entries."""
        query = select(*checkpoint_anchors.c).where(
            checkpoint_anchors.c.org_id == org_id, checkpoint_anchors.c.number.in_(numbers)
        )
        states: dict[int, list[AnchorState]] = {number: [] for number in numbers}
        async with self._database.statement() as connection:
            for row in (await connection.execute(query.order_by(checkpoint_anchors.c.anchor))).all():
                states[row.number].append(_state_of(row))
        return states

    async def add(self, checkpoint: Checkpoint, anchors: Sequence[str]) -> bool:
        try:
            await self._database.together(lambda connection: _add(connection, checkpoint, anchors))
        except IntegrityError:
            return False
        return True

    async def waiting(self, at: datetime, limit: int) -> list[tuple[Checkpoint, AnchorState]]:
        due = select(*checkpoint_anchors.c).where(
            checkpoint_anchors.c.done_at.is_(None), checkpoint_anchors.c.next_at <= at
        )
        due = due.order_by(checkpoint_anchors.c.number, checkpoint_anchors.c.anchor).limit(limit)
        async with self._database.statement() as connection:
            states = [_state_of(row) for row in (await connection.execute(due)).all()]
        places = {(state.org_id, state.number) for state in states}
        query = select(*checkpoints.c).where(tuple_(checkpoints.c.org_id, checkpoints.c.number).in_(places))
        async with self._database.statement() as connection:
            found_checkpoints = {
                (row.org_id, row.number): checkpoint_of(row)
                for row in ((await connection.execute(query)).all() if places else ())
            }
        return [(found_checkpoints[state.org_id, state.number], state) for state in states]

    async def mark(self, state: AnchorState, next_at: datetime) -> None:
        condition = (
            checkpoint_anchors.c.org_id == state.org_id,
            checkpoint_anchors.c.number == state.number,
            checkpoint_anchors.c.anchor == state.anchor,
        )
        values = {"attempts": state.attempts, "done_at": state.done_at, "error": state.error, "next_at": next_at}
        async with self._database.statement() as connection:
            await connection.execute(update(checkpoint_anchors).where(*condition).values(values))


class SqlLedgerKeys:
    """Signing keys. Reading raises Misconfigured when a key was changed, or moved from a different organisation."""

    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def all(self, org_id: UUID) -> list[LedgerKey]:
        query = select(*raw(ledger_keys)).where(ledger_keys.c.org_id == org_id)
        ordered = query.order_by(ledger_keys.c.retired_at.is_not(None), ledger_keys.c.created_at.desc())

        def read(connection: Connection) -> list[dict[str, Any]]:
            decoder = Decoder(connection, ledger_keys)
            return [decoder.decode(row) for row in connection.execute(ordered).all()]

        try:
            async with self._database.statement() as statement:
                rows = await statement.run_sync(read)
        except Malformed as error:
            raise Misconfigured(f"a ledger key in the store was changed: {error.message}") from None
        return [await self._read(row) for row in rows]

    async def _read(self, row: Mapping[str, Any]) -> LedgerKey:
        """Read a key. Only the private half is sealed: the public one is valid when it belongs to it."""
        private = await self._encryption.open(row["private"], row=f"ledger_keys/{row['id']}", org_id=row["org_id"])
        if Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw() != row["public"]:
            raise Misconfigured(f"the public half of the ledger key {row['id']} in the store was changed")
        return LedgerKey(**{**row, "private": private})

    async def add_first(self, key: LedgerKey) -> None:
        values = await self._values(key)
        async with self._database.transaction() as transaction:
            await one_at_a_time(transaction)
            query = count_of(ledger_keys, ledger_keys.c.org_id == key.org_id)
            if not (await transaction.execute(query)).scalar_one():
                await transaction.execute(insert(ledger_keys).values(values))

    async def rotate(self, key: LedgerKey, entry: LedgerEntry, checkpoint: Checkpoint, anchors: Sequence[str]) -> bool:
        values = await self._values(key)
        in_use = (ledger_keys.c.org_id == key.org_id, ledger_keys.c.retired_at.is_(None))

        def work(connection: Connection) -> None:
            append(connection, [entry])
            _add(connection, checkpoint, anchors)
            connection.execute(update(ledger_keys).where(*in_use).values(retired_at=key.created_at))
            connection.execute(insert(ledger_keys).values(values))

        try:
            await self._database.together(work)
        except (IntegrityError, LedgerTaken):
            return False
        return True

    async def _values(self, key: LedgerKey) -> dict[str, Any]:
        sealed = await self._encryption.seal(key.private, row=f"ledger_keys/{key.id}", org_id=key.org_id)
        return {
            "id": key.id,
            "org_id": key.org_id,
            "public": key.public,
            "private": sealed,
            "created_at": key.created_at,
        }


def _add(connection: Connection, checkpoint: Checkpoint, anchors: Sequence[str]) -> None:
    connection.execute(insert(checkpoints).values(asdict(checkpoint)))
    for anchor in anchors:
        place = {"org_id": checkpoint.org_id, "number": checkpoint.number, "anchor": anchor}
        connection.execute(
            insert(checkpoint_anchors).values(**place, attempts=0, next_at=checkpoint.at, done_at=None, error="")
        )


def _state_of(row: Row[Any]) -> AnchorState:
    return AnchorState(row.org_id, row.number, row.anchor, row.attempts, row.done_at, row.error)
