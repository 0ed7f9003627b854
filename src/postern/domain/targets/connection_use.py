"""How connections are used: what a principal can do with one, and its sessions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

# Own sessions that are searched for the last use of a connection.
OWN_SESSIONS = 2_000


class ConnectionUse(StrEnum):
    """A kind of use, which an access mode of the connection enables."""

    CONNECT = "connect"
    EXEC = "exec"
    RUNBOOKS = "runbooks"
    SCHEMA = "schema"


@dataclass(frozen=True, slots=True)
class UseAccess:
    """Whether a principal can use a connection in one way. `reason` says why not, or which approvals are required."""

    allowed: bool
    needs_review: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ConnectionAccess:
    """Whether a principal can use a connection in any way, and in which. `reason` is that of the access rules."""

    reason: str
    uses: Mapping[ConnectionUse, UseAccess]

    @property
    def allowed(self) -> bool:
        return any(access.allowed for access in self.uses.values())


@dataclass(frozen=True, slots=True)
class SessionActivity:
    """The sessions of a connection: when the newest one started, and how many are open."""

    last_used: datetime | None = None
    open_sessions: int = 0


@dataclass(frozen=True, slots=True)
class ConnectionActivity:
    """The activity of a principal, and of all users; the latter only for administrators and auditors.

    `own.last_used` looks at their newest OWN_SESSIONS sessions.
    """

    own: SessionActivity
    all: SessionActivity | None


class ConnectionFacet(StrEnum):
    """A field of connections by which a list can be narrowed."""

    TYPE = "type"
    SUBTYPE = "subtype"
    STATUS = "status"
    TAG = "tag"
