"""A Permit: proof that a principal is allowed to open a connection now.

It is created in one place, `services/admission.py`, which alone imports `seal`; the import-rule test enforces that.
Dialling requires a Permit, never a name, so a path without admission cannot dial.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.domain.rules.policy import Policy
from postern.domain.runbook import RunbookRef
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import Connection, Extra

_SEAL = object()


@dataclass(frozen=True, slots=True)
class Permit:
    """`expires_at` is when the permission expires, with any session under it; None when it is open-ended.

    `review_id` is the review that gave it, and `session_id` the session that waited for it, if it has not run yet.
    `means` is the auth method and login, and `means_until` its expiry, unless it is a credential. `runbook`: only to
    run that. `extra`: only for that, on a connection of SSH. `modes` are the access modes that its use needs where they
    differ from the verb: commands of an SSH client. `in_browser`: only for a terminal in a browser, while the login in
    `means` is valid.
    """

    principal: Principal
    connection: Connection
    policy: Policy
    verb: Verb
    source: str
    credential_id: UUID | None
    expires_at: datetime | None
    _seal: object
    means: str = ""
    review_id: UUID | None = None
    session_id: UUID | None = None
    runbook: RunbookRef | None = None
    extra: Extra | None = None
    means_until: datetime | None = None
    modes: tuple[Verb, ...] = ()
    in_browser: bool = False

    def __post_init__(self) -> None:
        if self._seal is not _SEAL:
            raise TypeError("a Permit is made by services.access only")


def seal() -> object:
    """Return what makes a Permit genuine, for `services/admission.py`."""
    return _SEAL
