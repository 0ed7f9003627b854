"""Report of a verification: its findings, and what it proved."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from postern.domain.sessions.ledger import moment

MOST = 1000  # findings that are listed; all are counted


class FindingKind(StrEnum):
    CHANGED = "changed"  # bytes differ from those that were written
    MISSING = "missing"  # the ledger proves it, but it is missing
    FOREIGN = "foreign"  # it is there, but the ledger does not contain it
    DOUBLED = "doubled"
    REORDERED = "reordered"
    TRUNCATED = "truncated"  # a checkpoint or an anchor proves more than there is
    FORGED = "forged"  # a checkpoint that no trusted key signed
    REWRITTEN = "rewritten"  # entries match each other, but not a checkpoint
    UNREADABLE = "unreadable"
    HELD = "held"  # purged despite a legal hold
    UNPROVEN = "unproven"  # nothing trusted covers it


@dataclass(frozen=True, slots=True)
class Finding:
    """Problem that a verification found. `begin` and `end` (exclusive) are bytes of the segment as it was written."""

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
    """Result of a verification. `proven_to` is the entry of the newest checkpoint that is trusted and matches."""

    organisation: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    entries: int = 0
    proven_to: int = 0
    proven_at: datetime | None = None
    after_checkpoint: int = 0  # entries
    checkpoints: int = 0  # trusted ones
    anchored: int = 0  # matching checkpoints from anchors
    sessions_proven: int = 0
    sessions_open: int = 0  # opened in the ledger and not closed; their opening is proven
    sessions_pending: int = 0  # after the newest checkpoint, or not in the ledger yet
    sessions_purged: int = 0
    purges_undone: int = 0  # purged according to the ledger, but something is still there
    sessions_incomplete: int = 0  # closed after waiting for missing segments
    segments_proven: int = 0
    bytes_proven: int = 0
    segments_unproven: int = 0  # of sessions that are not closed in the ledger, or not read
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
        """Return the whole report, for programs."""
        values: dict[str, Any] = {"good": self.is_good}
        for name in self.__slots__:
            value = getattr(self, name)
            if isinstance(value, datetime):
                value = moment(value)
            values[name] = str(value) if isinstance(value, UUID) else value
        values["findings"] = [finding.as_json() for finding in self.findings]
        return values
