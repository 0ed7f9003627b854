"""A ChangeNotice: what the event stream of the API sends. It has identifiers and the kind of change, never content:
clients read what they show, with the rights that they have then."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.principal import Principal


class ChangeSubject(StrEnum):
    REVIEW = "review"
    SESSION = "session"
    AGENT = "agent"
    CONNECTION = "connection"
    LOGIN = "login"


@dataclass(frozen=True, slots=True)
class Audience:
    """The principals that a change concerns: those of the organisation to whom one of the other fields applies.

    `org_id` is None where `principal_id` alone decides. `overseers` are administrators and auditors, `owner` is a
    subject, `groups` are those of reviewers.
    """

    org_id: UUID | None
    everyone: bool = False
    overseers: bool = False
    principal_id: UUID | None = None
    owner: str = ""
    groups: frozenset[str] = frozenset()

    def includes(self, principal: Principal) -> bool:
        if self.org_id is None or principal.org_id != self.org_id:
            return principal.id == self.principal_id
        is_owner = principal.id == self.principal_id or (self.owner != "" and principal.subject == self.owner)
        is_overseer = self.overseers and principal.sees_all
        return self.everyone or is_owner or is_overseer or not self.groups.isdisjoint(principal.groups)


@dataclass(frozen=True, slots=True)
class ChangeNotice:
    """`number` counts the changes of one process. `id` is None where the change concerns the whole list.

    `what` is the kind of change; `session_id` is the session of a review.
    """

    number: int
    subject: ChangeSubject
    id: UUID | None
    what: str
    audience: Audience
    session_id: UUID | None = None
