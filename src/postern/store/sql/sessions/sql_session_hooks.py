"""Results of session hooks; their output is sealed."""

from __future__ import annotations

import logging
from contextlib import suppress
from uuid import UUID

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import IntegrityError

from postern.domain.hook import HookKind, HookOutcome, HookRun
from postern.errors import Misconfigured
from postern.store.database import Database
from postern.store.encryption import Encryption
from postern.store.prepared import Row
from postern.store.schema.runbook_tables import session_hooks
from postern.store.schema.session_tables import sessions

log = logging.getLogger(__name__)

_SHUT = "its output cannot be decrypted with the keys of this server"
_columns = session_hooks.c
_PLAIN = ("id", "org_id", "session_id", "kind", "repository", "started_at", "seconds")


class SqlHookRuns:
    def __init__(self, database: Database, encryption: Encryption) -> None:
        self._database = database
        self._encryption = encryption

    async def add(self, run: HookRun) -> None:
        values = {name: getattr(run, name) for name in _PLAIN}
        values |= {"commit_id": run.commit, "exit_code": run.outcome.exit_code, "reason": run.outcome.reason}
        printed = run.outcome.output.encode()
        output = printed and await self._encryption.seal(printed, row=_row(run.id), org_id=run.org_id)
        # Locked, so that a purge of the recording comes before it or after it.
        condition = (sessions.c.id == run.session_id, sessions.c.org_id == run.org_id)
        session = select(sessions.c.recording_purged_at).where(*condition).with_for_update(read=True)

        def work(connection: Connection) -> None:
            row = connection.execute(session).one_or_none()
            if row is not None:
                data = output if row.recording_purged_at is None else b""
                connection.execute(insert(session_hooks).values(**values, output=data))

        with suppress(IntegrityError):  # a retry, whose first attempt succeeded unnoticed
            await self._database.together(work)

    async def of(self, org_id: UUID, session_id: UUID, most: int) -> list[HookRun]:
        condition = (_columns.org_id == org_id, _columns.session_id == session_id)
        query = select(*_columns).where(*condition).order_by(_columns.started_at, _columns.id).limit(most)
        async with self._database.statement() as connection:
            rows = (await connection.execute(query)).mappings().all()
        return [await self._open(row) for row in rows]

    async def _open(self, row: Row) -> HookRun:
        output, reason = b"", row["reason"]
        if row["output"]:
            try:
                output = await self._encryption.open(row["output"], row=_row(row["id"]), org_id=row["org_id"])
            except Misconfigured as error:
                log.warning(
                    "the output of a session hook cannot be decrypted: session=%s error=%s", row["session_id"], error
                )
                reason = f"{reason}; {_SHUT}".removeprefix("; ")
        plain = {name: row[name] for name in _PLAIN} | {"kind": HookKind(row["kind"]), "commit": row["commit_id"]}
        return HookRun(**plain, outcome=HookOutcome(row["exit_code"], output.decode(), reason))


def _row(run_id: UUID) -> str:
    return f"session_hooks/{run_id}"
