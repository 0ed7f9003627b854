"""What a session hook is told: JSON in the shape that hooks of another gateway know, with a little more.

{"id": …, "sid": …, "command": ["python3"], "event_session_open": {…} or null, "event_session_close": {…} or null}
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from postern.domain.hook import HookKind
from postern.domain.rules.permit import Permit
from postern.domain.sessions.session import EndReason

MOST = 48 * 1024  # bytes of JSON: in base64, 64 KiB; Linux takes no variable of more than 128
_COMMAND = ["python3"]
_GOOD_ENDS = (EndReason.CLIENT_CLOSED, EndReason.COMPLETED)


@dataclass(frozen=True, slots=True)
class HookMoment:
    """The beginning of a session, with the `script` that it runs, if it does; or its end, for `reason`."""

    kind: HookKind
    session_id: UUID
    permit: Permit
    script: str = ""
    reason: EndReason = EndReason.COMPLETED
    exit_code: int | None = None

    @property
    def org_id(self) -> UUID:
        return self.permit.connection.org_id


def context(run_id: UUID, moment: HookMoment) -> str:
    """In base64."""
    about = _about(moment.permit)
    opened = closed = None
    if moment.kind is HookKind.CLOSE:
        closed = {"exit_code": _exit_code(moment), "output": str(moment.reason), **about}

    def told(script: str) -> bytes:
        event = {**about, "input": script, "input_truncated": len(script) < len(moment.script)}
        both = {"event_session_open": event if closed is None else opened, "event_session_close": closed}
        message = {"id": str(run_id), "sid": str(moment.session_id), "command": _COMMAND, **both}
        return json.dumps(message, separators=(",", ":")).encode()

    room = MOST - len(told("")) - 1  # "false" has one more than "true"
    return base64.b64encode(told(_fitting(moment.script, room))).decode()


def _about(permit: Permit) -> dict[str, Any]:
    """No variable of the connection, since those are its secrets. Nor who reviews it: what somebody approves, and who,
    stands in the session."""
    connection = permit.connection
    return {
        "verb": str(permit.verb),
        "connection_name": connection.name,
        "connection_type": str(connection.type),
        "connection_subtype": connection.subtype,
        "connection_envs": {},
        "connection_reviewers": [],
        "user_email": permit.principal.email,
    }


def _exit_code(moment: HookMoment) -> int:
    """A number, as those hooks expect: of a session that has none, whether it ended well."""
    if moment.exit_code is not None:
        return moment.exit_code
    return 0 if moment.reason in _GOOD_ENDS else 1


def _fitting(script: str, room: int) -> str:
    """As much of it as takes no more than `room` bytes of JSON. Each part is written once or twice: this is the event
    loop of all sessions, and a script may be as long as somebody likes."""
    fits = 0
    for step in (4_096, 256, 16, 1):
        while fits < len(script) and (size := len(json.dumps(script[fits : fits + step])) - 2) <= room:
            fits, room = fits + step, room - size
    return script[:fits]
