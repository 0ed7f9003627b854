"""Commands of a client, and those that need no evaluation or are never allowed."""

from __future__ import annotations

import re
from typing import Final

from postern.protocols.mysql.wire import mysql_messages as m
from postern.protocols.mysql.wire.mysql_charsets import BEFORE
from postern.protocols.mysql.wire.mysql_response_queue import SIMPLE, STATISTICS, MysqlPendingResponse
from postern.protocols.wire_base import Request

# Connection ids from here on are the gateway's own.
FIRST_OWN: Final = 1 << 31

# Commands that need no evaluation, and the kind of their response. COM_QUIT and the commands of statements are handled
# separately.
PLAIN: Final = {
    m.COM_PING: SIMPLE,
    m.COM_SET_OPTION: SIMPLE,
    m.COM_STATISTICS: STATISTICS,
}
REPLICATION: Final = frozenset({m.COM_BINLOG_DUMP, m.COM_BINLOG_DUMP_GTID, m.COM_REGISTER_SLAVE, m.COM_TABLE_DUMP})
NEVER: Final = {
    m.COM_SHUTDOWN: "a server cannot be shut down through Postern",
    m.COM_DEBUG: "a server cannot be made to log its state through Postern",
    m.COM_CREATE_DB: "this command is not supported; send CREATE DATABASE as a statement",
    m.COM_DROP_DB: "this command is not supported; send DROP DATABASE as a statement",
    m.COM_REFRESH: "this command is not supported; send FLUSH as a statement",
}
KILL: Final = re.compile(
    rf"{BEFORE}KILL\s+(?:(?:HARD|SOFT)\s+)?(?:(CONNECTION|QUERY)\s+)?(\d{{1,20}})\s*;?\s*", re.IGNORECASE
)


class Command(Request):
    """One command. `owner`: the client asked to kill what runs on that connection of the gateway. `dead` selects the
    error of a refusal that does not come from rules."""

    __slots__ = ("code", "dead", "owner", "raw", "slot", "stops_query")

    def __init__(self, code: int, raw: bytes, slot: MysqlPendingResponse) -> None:
        super().__init__()
        self.code = code
        self.raw = raw
        self.slot = slot
        self.owner = 0
        self.stops_query = False
        self.dead: tuple[int, str] | None = None


def quote_identifier(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
