"""Many sessions that look like real ones, written in bulk: three weeks of them, and those again for each three weeks
before, by the engine itself."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
from tests.support.world import START, World

from postern.domain.identity.principal import Principal
from postern.domain.sessions.session import EndReason, Session, SessionStatus, Verb
from postern.domain.sessions.words import fold_text
from postern.store.ports.notification_ports import OPENED
from postern.store.schema.session_tables import session_texts, sessions
from postern.store.sql.sessions.session_search import keys_of, place_of

USERS, CONNECTIONS, DAYS, COPIES, BATCH = 500, 200, 21, 50, 2_000
COMMON, RARE, PHRASE = "select", "xylophone", "customers where country"
_TABLES = [f"table_{number}" for number in range(60)] + ["customers", "orders", "invoices", "payments"]
_SHAPES = [
    "select * from {0} where id = {1}",
    "select count(*) from {0} join {2} on {2}.id = {0}.{2}_id",
    "update {0} set status = 'done' where id = {1}",
    "select name, created_at from {0} order by created_at desc limit {1}",
    "insert into {0} (id, note) values ({1}, 'made by {2}')",
    "select {0}.id from {0}, {2} where country = 'nl'",
]


Made = tuple[dict[str, Any], dict[str, Any] | None]  # a session's row, and that of its texts


@dataclass
class User:
    principal: Principal


async def fill(world: World, count: int) -> list[User]:
    """Answers the users, the busiest first. Indexes are made when all is there, which is many times faster."""
    users = [User(await world.add_user(f"user-{number:03}")) for number in range(USERS)]
    made = _sessions(world.org_id, users, count // COPIES)
    if world.database.is_sqlite:
        with sqlite3.connect(str(world.database.engine.sync_engine.url.database)) as file:
            _into_sqlite(file, made)
    else:
        url = world.database.engine.sync_engine.url.set(drivername="postgresql")
        with psycopg.connect(url.render_as_string(hide_password=False), autocommit=True) as server:
            _into_postgres(server, made)
    return users


def _sessions(org_id: UUID, users: list[User], count: int) -> Iterator[tuple[dict[str, Any], dict[str, Any] | None]]:
    """(row, its texts), the oldest first. A few that began last are open."""
    chance = random.Random(7)
    step = timedelta(days=DAYS) / count
    begin = START - timedelta(days=DAYS)
    for number in range(count):
        at = begin + step * number + timedelta(seconds=chance.random())
        yield _session(org_id, users, chance, at, number, is_open=number >= count - 40)


def _session(
    org_id: UUID, users: list[User], chance: random.Random, at: datetime, number: int, *, is_open: bool
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    owner = users[
        min(int(chance.paretovariate(0.6)) - 1, USERS - 1) if chance.random() < 0.5 else chance.randrange(USERS)
    ]
    connection = min(int(chance.expovariate(1 / 40)), CONNECTIONS - 1)
    is_exec, refused = chance.random() < 0.2, int(chance.random() < 0.005)
    masked = chance.randrange(1, 500) if chance.random() < 0.1 else 0
    reason = (
        EndReason.KILLED if chance.random() < 0.001 else EndReason.COMPLETED if is_exec else EndReason.CLIENT_CLOSED
    )
    session = Session(
        id=UUID(int=0xFFFF << 112 | chance.getrandbits(112), version=4),  # copies begin with their number
        org_id=org_id,
        connection_id=UUID(int=connection + 1),
        connection=f"connection-{connection:03}",
        connection_subtype="postgres" if connection % 10 else "custom",
        connection_tags={"env": "prod" if connection % 3 else "test", "team": f"team-{connection % 20}"},
        type="database" if connection % 10 else "custom",
        verb=Verb.EXEC if is_exec else Verb.CONNECT,
        status=SessionStatus.OPEN if is_open else SessionStatus.DONE,
        user=owner.principal.email,
        user_id=owner.principal.subject,
        user_name=owner.principal.name,
        start_date=at,
        labels={"ticket": str(chance.randrange(50))},
        metadata={"application": "psql"} | ({} if is_open else {"end_reason": reason}),
        correlation_id=f"order-{number}" if is_exec else None,
        worker="w1",
    )
    row = {name: getattr(session, name, None) for name in sessions.c.keys()}  # noqa: SIM118 - a column is called keys
    row |= {
        "principal_id": owner.principal.id,
        "source": "127.0.0.1",
        "refused": refused,
        "masked": masked,
        "pending": OPENED if is_open else 0,
        "metadata": {"application": "psql"},
        "metrics": {"refused": refused, "data_masking": {"total_redact_count": masked}},
        "end_reason": None if is_open else reason,
        "end_date": None if is_open else at + timedelta(seconds=chance.expovariate(1 / 600)),
    }
    return row, None if is_open else _texts(session, chance, number, refused, masked)


def _texts(session: Session, chance: random.Random, number: int, refused: int, masked: int) -> dict[str, Any]:
    said = [
        chance.choice(_SHAPES).format(chance.choice(_TABLES), chance.randrange(10**6), chance.choice(_TABLES))
        for _ in range(5)
    ]
    if number % 200 == 0:
        said[2] = f"select * from {PHRASE} = 'be'"
    if number == 17:
        said[4] = f"drop table {RARE}"
    return {
        "place": place_of(session.start_date, session.id),
        "session_id": session.id,
        "org_id": session.org_id,
        "pieces": json.dumps([[1000.0 * at, one] for at, one in enumerate(said)]),
        "folded": fold_text(said),
        "keys": keys_of(session, refused=refused, masked=masked),
        "size": sum(map(len, said)),
        "segments": [1],
        "is_cut": False,
    }


def _into_sqlite(file: sqlite3.Connection, made: Iterator[Made]) -> None:
    apart = file.execute(
        "select type, name, sql from sqlite_master where sql is not null"
        " and (type = 'index' and tbl_name = 'sessions' or type = 'trigger' and tbl_name = 'session_texts')"
    ).fetchall()
    for kind, name, _ in apart:
        file.execute(f'drop {kind} "{name}"')
    for batch in _batches(made):
        rows = [row for row, _ in batch]
        texts = [{**one, "words": None, "keys": " ".join(one["keys"])} for _, one in batch if one]
        for table, values in (("sessions", rows), ("session_texts", texts)):
            names = ", ".join(f'"{name}"' for name in values[0])
            places = ", ".join("?" * len(values[0]))
            every = [[_in_sqlite(value) for value in one.values()] for one in values]
            file.executemany(f"insert into {table} ({names}) values ({places})", every)
    for number in range(1, COPIES):
        _copy_in_sqlite(file, number)
    file.execute("insert into session_words (session_words) values ('rebuild')")
    for _, _, statement in apart:
        file.execute(statement)
    file.commit()


def _copy_in_sqlite(file: sqlite3.Connection, number: int) -> None:
    """The sessions that ended, three weeks times `number` earlier. Their weeks are no key that FTS5 is asked for."""
    back = f"strftime('%Y-%m-%d %H:%M:%f000', {{0}}, '-{DAYS * number} days')"
    key = f"'{number:04x}' || substr({{0}}, 5)"
    changed = {
        "id": key.format("id"),
        "session_id": key.format("session_id"),
        "start_date": back.format("start_date"),
        "end_date": back.format("end_date"),
        "place": f"place - ({DAYS * number * 86_400_000} << 20)",
        "correlation_id": f"correlation_id || '-{number}'",
    }
    for table, only in (("sessions", "status = 'done' and start_date >= ?"), ("session_texts", "place >= ?")):
        names = [row[1] for row in file.execute(f"pragma table_info({table})")]
        listed, values = (
            ", ".join(f'"{name}"' for name in names),
            ", ".join(changed.get(name, f'"{name}"') for name in names),
        )
        newest = START - timedelta(days=DAYS)
        since: Any = newest.strftime("%Y-%m-%d %H:%M:%S") if table == "sessions" else place_of(newest, UUID(int=0))
        file.execute(f"insert into {table} ({listed}) select {values} from {table} where {only}", [since])


def _in_sqlite(value: Any) -> Any:
    if isinstance(value, UUID):
        return value.hex
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    return json.dumps(value) if isinstance(value, dict | list) else value


def _into_postgres(server: psycopg.Connection, made: Iterator[Made]) -> None:
    apart = server.execute(
        "select indexname, indexdef from pg_indexes where tablename in ('sessions', 'session_texts')"
        " and indexname like 'ix%'"
    ).fetchall()
    for name, _ in apart:
        server.execute(f'drop index "{name}"')
    server.execute("set maintenance_work_mem = '512MB'")
    _copy(server, made)
    _copy_in_postgres(server)
    for _, statement in apart:
        server.execute(statement)
    server.execute("vacuum analyze")


def _copy_in_postgres(server: psycopg.Connection) -> None:
    """As `_copy_in_sqlite`, with the keys of the weeks in which the copies began."""
    key = "overlay({0}::text placing lpad(to_hex(number), 4, '0') from 1 for 4)::uuid"
    place = f"place - ((number::bigint * {DAYS * 86_400_000}) << 20)"
    weeks = f"select 'w' || l || 'x' || ((({place}) >> 20) / 604800000 >> 2 * l) from generate_series(0, 5) l"
    changed = {
        "id": key.format("id"),
        "session_id": key.format("session_id"),
        "start_date": f"start_date - number * interval '{DAYS} days'",
        "end_date": f"end_date - number * interval '{DAYS} days'",
        "place": place,
        "correlation_id": "correlation_id || '-' || number",
        "keys": f"array(select one from unnest(keys) one where one not like 'w_x%') || array({weeks})",
    }
    for table, only in (("sessions", "where status = 'done'"), ("session_texts", "")):
        names = [
            row[0]
            for row in server.execute(
                "select attname from pg_attribute where attrelid = %s::regclass and attnum > 0 order by attnum", [table]
            )
        ]
        listed = ", ".join(f'"{name}"' for name in names)
        values = ", ".join(changed.get(name, f'"{name}"') for name in names)
        source = f"{table}, generate_series(1, {COPIES - 1}) number {only}"
        server.execute(f"insert into {table} ({listed}) select {values} from {source}")


def _copy(connection: psycopg.Connection, made: Iterator[Made]) -> None:
    columns = [column.name for column in session_texts.c]
    for batch in _batches(made):
        rows = [row for row, _ in batch]
        texts = [
            {**one, "words": " ".join(f"'{word}'" for word in set(one["folded"].split()))} for _, one in batch if one
        ]
        for table, names, values in (("sessions", list(rows[0]), rows), ("session_texts", columns, texts)):
            listed = ", ".join(f'"{name}"' for name in names)
            with connection.cursor().copy(f"copy {table} ({listed}) from stdin") as copy:
                for one in values:
                    copy.write_row([_plain(one[name], name) for name in names])


def _plain(value: Any, name: str) -> Any:
    return json.dumps(value) if isinstance(value, dict) or name == "segments" else value


def _batches(made: Iterator[Any]) -> Iterator[Sequence[Any]]:
    batch: list[Any] = []
    for one in made:
        batch.append(one)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
