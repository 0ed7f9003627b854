"""Values as the store would return them, without a store."""

from __future__ import annotations

from uuid import uuid4

from postern.domain.targets.connection import Connection, ConnectionType


def unsaved_connection(
    subtype: str, kind: ConnectionType = ConnectionType.DATABASE, command: tuple[str, ...] = ()
) -> Connection:
    return Connection(uuid4(), uuid4(), "shop", kind, subtype, uuid4(), command=command)
