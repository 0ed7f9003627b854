"""Sinks: external receivers of an organisation's events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.event import EventKind
from postern.domain.reviews.review import Review
from postern.domain.secret import Secret


class SinkKind(StrEnum):
    WEBHOOK = "webhook"
    SYSLOG = "syslog"
    OTLP = "otlp"
    SLACK = "slack"
    TEAMS = "teams"
    EMAIL = "email"
    APPRISE = "apprise"


# Where people read of reviews; what is sent there is words, and not the event itself.
CHATS = frozenset({SinkKind.SLACK, SinkKind.TEAMS, SinkKind.EMAIL, SinkKind.APPRISE})


class SinkStatus(StrEnum):
    ACTIVE = "active"
    PAUSED = "paused"  # by an administrator: events wait
    GONE = "gone"  # the receiver said that there is nothing any more, and will not be asked again


class DeliveryState(StrEnum):
    WAITING = "waiting"
    DELIVERED = "delivered"
    GIVEN_UP = "given_up"


@dataclass(frozen=True, slots=True)
class SigningSecret:
    """`whsec_` and Base64, as in https://www.standardwebhooks.com. A replaced one signs until `until`."""

    value: Secret
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a sink's first event waits: the number of failures in a row, since when, and the time of the next attempt."""

    failures: int = 0
    since: datetime | None = None
    error: str = ""
    next_at: datetime | None = None


NO_TROUBLE = Trouble()


@dataclass(frozen=True, slots=True)
class SinkScope:
    """The reviews that a sink receives: those on one of these connections, by name or because it carries all of
    `connection_tags`; and for one of `groups` to review. Empty fields do not limit."""

    connections: tuple[str, ...] = ()
    connection_tags: Mapping[str, str] = field(default_factory=dict)
    groups: tuple[str, ...] = ()

    def covers(self, review: Review, tags: Mapping[str, str]) -> bool:
        """Return whether a review is in scope; `tags` are the connection's."""
        if self.groups and not review.may_review(self.groups):
            return False
        if not (self.connections or self.connection_tags):
            return True
        required_tags = self.connection_tags
        tagged = bool(required_tags) and all(tags.get(key) == value for key, value in required_tags.items())
        return tagged or review.connection in self.connections


EVERYTHING = SinkScope()


@dataclass(frozen=True, slots=True)
class Sink:
    """`address` is a URL: https:, or syslog+tls:, syslog+tcp:, syslog+udp:, smtps:, smtp+starttls:, smtp:; where a
    chat's is a secret, what may be shown of it. `headers` go with each request. `authority` is the PEM of the CA that
    issued the receiver's certificate; empty when that is publicly trusted. `options` and `keys` are what a chat needs
    besides, by the names that services/notifications/chat_fields.py has; keys are secrets. `new_secret` is the signing
    secret that a write has just created, which is shown once; a stored sink does not have it."""

    id: UUID
    org_id: UUID
    name: str
    kind: SinkKind
    address: str
    events: tuple[EventKind, ...]
    status: SinkStatus = SinkStatus.ACTIVE
    with_script: bool = False
    authority: str = ""
    secrets: tuple[SigningSecret, ...] = ()
    headers: Mapping[str, Secret] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, Secret] = field(default_factory=dict)
    scope: SinkScope = EVERYTHING
    created_at: datetime | None = None
    updated_at: datetime | None = None
    trouble: Trouble = NO_TROUBLE
    delivered_at: datetime | None = None
    version: int = 1
    new_secret: Secret | None = None
    managed_by: str | None = None

    @property
    def paused(self) -> bool:
        return self.status is SinkStatus.PAUSED


@dataclass(frozen=True, slots=True)
class SinkOutline:
    """The fields that decide whether a sink receives an event."""

    id: UUID
    org_id: UUID
    events: frozenset[EventKind]
    with_script: bool
    created_at: datetime
    scope: SinkScope = EVERYTHING


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """An event for one sink. `event_id` is the same for each sink and each attempt. `body` is a JSON object."""

    sink_id: UUID
    org_id: UUID
    event_id: UUID
    event: EventKind
    at: datetime
    body: str


@dataclass(frozen=True, slots=True)
class Delivery(NewDelivery):
    """A stored delivery. Those of a sink are sent in the order of their numbers."""

    number: int
    state: DeliveryState
    attempts: int
    error: str
    attempted_at: datetime | None
