"""A Permit: proof that a principal may open a connection now.

Made in one place, `services/admission.py`, which alone imports `seal`; the import-rule test holds
that. Whoever dials takes a Permit, never a name, so a path that forgot to ask cannot dial.
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
    """`expires_at` is when the right ends, with any session under it; None when it is open-ended. `review_id` is the
    review that gave it, and `session_id` the session that waited for that, if none has run it yet. `means` is what was
    logged in with, and `means_until` when that ends, unless it is a credential. `runbook`: to run that, and no script
    of one's own. `extra`: for that and nothing else, on a connection of SSH. `modes` are the access modes that its
    use needs where that is not the verb's alone: commands of an SSH client."""

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

    def __post_init__(self) -> None:
        if self._seal is not _SEAL:
            raise TypeError("a Permit is made by services.access only")


def seal() -> object:
    """What `services/admission.py` passes to make a Permit genuine."""
    return _SEAL
