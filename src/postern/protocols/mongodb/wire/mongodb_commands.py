"""What the wire must know of commands: which are never forwarded, and where the data of their replies is."""

from __future__ import annotations

from typing import Final

from postern.protocols.mongodb.wire.mongodb_response_queue import MongodbPendingReply
from postern.protocols.wire_base import Request

# Answered by the gateway, with facts about itself.
HELLO: Final = frozenset({b"hello", b"isMaster", b"ismaster"})

_LOGIN: Final = "the login at the gateway cannot be changed on an open connection"
NEVER: Final = {
    b"saslStart": _LOGIN,
    b"saslContinue": _LOGIN,
    b"authenticate": _LOGIN,
    b"logout": _LOGIN,
    b"getnonce": _LOGIN,
}

# Sections of kind 1 that commands of servers have: insert, update, delete, and the two of bulkWrite.
SEQUENCES: Final = frozenset({b"documents", b"updates", b"deletes", b"ops", b"nsInfo"})

# Replies that hold no data, whatever fields they have.
HARMLESS: Final = frozenset(
    {
        *(b"ping", b"endSessions", b"killSessions", b"refreshSessions", b"startSession", b"killAllSessions"),
        *(b"killCursors", b"abortTransaction", b"commitTransaction", b"count", b"create", b"createIndexes", b"drop"),
        *(b"dropDatabase", b"dropIndexes", b"deleteIndexes", b"renameCollection", b"collMod", b"convertToCapped"),
        *(b"createUser", b"updateUser", b"dropUser", b"dropAllUsersFromDatabase", b"grantRolesToUser"),
        *(b"revokeRolesFromUser", b"createRole", b"updateRole", b"dropRole", b"dropAllRolesFromDatabase"),
        *(b"grantPrivilegesToRole", b"revokePrivilegesFromRole", b"grantRolesToRole", b"revokeRolesFromRole"),
        *(b"shardCollection", b"enableSharding", b"fsync", b"fsyncUnlock", b"killOp", b"compact", b"whatsmyuri"),
    }
)

# Replies to these hold data in the fields of PLACES only.
WRITES: Final = frozenset({b"insert", b"update", b"delete", b"findAndModify", b"findandmodify"})

# Fields of replies that are never data: numbers and times that the server chooses.
ENVELOPE: Final = frozenset(
    {
        *(
            b"ok",
            b"n",
            b"nModified",
            b"nInserted",
            b"nMatched",
            b"nUpserted",
            b"nDeleted",
            b"nErrors",
            b"operationTime",
        ),
        *(b"$clusterTime", b"$configTime", b"$topologyTime", b"$gleStats", b"lastOp", b"opTime", b"electionId"),
        *(b"code", b"codeName", b"errorLabels", b"topologyVersion", b"retriedStmtId", b"retriedStmtIds"),
        *(b"recoveryToken", b"readOnly", b"waitedMS", b"keyPattern"),
    }
)
# Of these, the ones that a reply without a known place still shows its client as a row.
NOT_IN_ROWS: Final = frozenset({b"ok", b"operationTime", b"$clusterTime"})
# Fields of `cursor` besides the batch.
CURSOR_ENVELOPE: Final = frozenset(
    {b"id", b"ns", b"atClusterTime", b"partialResultsReturned", b"postBatchResumeToken", b"invalidated"}
)

# Commands whose reply can open a cursor that getMore reads. Those of others never do.
NO_CURSOR: Final = frozenset({*HARMLESS, *WRITES, b"getMore"})


class MongodbCommand(Request):
    """One command. `silent`: the client expects no reply. `code` is the error of a refusal by the protocol itself."""

    __slots__ = ("code", "killed", "pending", "raw", "silent")

    def __init__(self, raw: bytes, pending: MongodbPendingReply) -> None:
        super().__init__()
        self.raw = raw
        self.pending = pending
        self.silent = False
        self.code: tuple[int, str] | None = None
        self.killed: list[int] = []  # the cursors of killCursors


def is_error_field(name: bytes) -> bool:
    """Return whether a field of a reply describes errors of parts of a command that has succeeded otherwise."""
    return name in _ERRORS


_ERRORS: Final = frozenset({b"writeErrors", b"writeConcernError", b"writeConcernErrors"})
