"""Connections of subtypes ssh and mysql that were made when neither was spoken."""

from __future__ import annotations

from typing import Any

from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection
from tests.support.world import World

from postern.domain.connection import SSH, TERMINAL, ConnectionType
from postern.store.database import Database
from postern.store.migrations.versions import v0008_ssh


async def test_what_had_a_command_still_runs_it(database: Database) -> None:
    world = await World.make(database)
    old: dict[str, Any] = {"type": ConnectionType.APPLICATION, "subtype": "ssh"}
    made: dict[str, dict[str, Any]] = {
        "by-command": {**old, "command": ("ssh", "web-1")},
        "by-ssh": old,
        "a-shell": {"type": ConnectionType.CUSTOM, "subtype": "", "command": ("bash",)},
        "by-client": {"subtype": "mysql", "command": ("mysql", "--host=db")},
        "by-mysql": {"subtype": "mysql"},
        "a-database": {},
    }
    for name, fields in made.items():
        await world.add_connection(name, **fields)

    def stay(connection: Connection) -> None:
        with Operations.context(MigrationContext.configure(connection)):
            v0008_ssh._stay_commands()

    async with database.transaction() as transaction:
        await transaction.run_sync(stay)
    found = {}
    for name in made:
        connection = await world.stores.connections.get(world.org_id, name)
        assert connection is not None
        found[name] = (connection.protocol, connection.type, connection.command)
    assert found == {
        "by-command": (TERMINAL, ConnectionType.CUSTOM, ("ssh", "web-1")),
        "by-ssh": (SSH, ConnectionType.APPLICATION, ()),
        "a-shell": (TERMINAL, ConnectionType.CUSTOM, ("bash",)),
        "by-client": (TERMINAL, ConnectionType.CUSTOM, ("mysql", "--host=db")),
        "by-mysql": ("mysql", ConnectionType.DATABASE, ()),
        "a-database": ("postgres", ConnectionType.DATABASE, ()),
    }
