"""What a verification found, and what it proved."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from postern.domain.sessions.ledger import moment

MOST = 1000  # findings that are listed; all are counted


class FindingKind(StrEnum):
    CHANGED = "changed"  # bytes are not those that were written
    MISSING = "missing"  # something that the ledger proves is not there
    FOREIGN = "foreign"  # something is there that the ledger does not know
    DOUBLED = "doubled"
    REORDERED = "reordered"
    TRUNCATED = "truncated"  # a checkpoint or an anchor proves more than there is
    FORGED = "forged"  # a checkpoint that nobody trusted signed
    REWRITTEN = "rewritten"  # entries fit together, and not to a checkpoint
    UNREADABLE = "unreadable"
    HELD = "held"  # it was purged although a hold was on it
    UNPROVEN = "unproven"  # nothing that is trusted speaks for it at all


@dataclass(frozen=True, slots=True)
class Finding:
    """`begin` and `end` are bytes of the segment as it was written, the end left out."""

    what: FindingKind
    message: str
    session: UUID | None = None
    segment: int | None = None
    entry: int | None = None
    begin: int | None = None
    end: int | None = None

    def as_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in ("segment", "entry", "begin", "end")}
        session = str(self.session) if self.session else None
        return {"what": self.what.value, "message": self.message, "session": session, **values}


@dataclass(slots=True)
class VerificationReport:
    """`proven_to` is the newest checkpoint that is trusted and fits: the number of its entry, and when it was made."""

    organisation: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    entries: int = 0
    proven_to: int = 0
    proven_at: datetime | None = None
    after_checkpoint: int = 0  # entries
    checkpoints: int = 0  # that are trusted
    anchored: int = 0  # checkpoints from anchors that fit
    sessions_proven: int = 0
    sessions_open: int = 0  # opened in the ledger and not closed; how they began is proven
    sessions_pending: int = 0  # after the newest checkpoint, or not in the ledger yet
    sessions_purged: int = 0
    purges_undone: int = 0  # of which the ledger says that they were purged, and something is still there
    sessions_incomplete: int = 0  # closed after waiting in vain for segments
    segments_proven: int = 0
    bytes_proven: int = 0
    segments_unproven: int = 0  # of sessions that are not closed in the ledger, or not looked at
    records_proven: int = 0  # of the audit log and of reviews
    records_pending: int = 0  # after the newest checkpoint
    notes: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    count: int = 0  # of findings

    @property
    def is_good(self) -> bool:
        return self.count == 0

    def add(self, what: FindingKind, message: str, **where: Any) -> None:
        self.count += 1
        if len(self.findings) < MOST:
            self.findings.append(Finding(what, message, **where))

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        shown: dict[str, Any] = {"good": self.is_good}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, datetime):
                value = moment(value)
            shown[name] = str(value) if isinstance(value, UUID) else value
        shown["findings"] = [finding.as_json() for finding in self.findings]
        return shown
