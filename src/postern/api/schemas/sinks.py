"""Sinks."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import Field

from postern.api.schemas.common import Answer, Body
from postern.domain.event import EventKind
from postern.domain.secret import Secret
from postern.domain.sink import Delivery, DeliveryState, Sink, SinkKind, SinkScope, SinkStatus
from postern.services.telling.chat_fields import secret_values
from postern.services.telling.sinks import SinkFields

_Kind = Annotated[SinkKind, Field(strict=False)]
_Events = list[Annotated[EventKind, Field(strict=False)]]


class ScopeBody(Body):
    """Of reviews: on one of these connections, or one that carries all of the tags; and for one of these groups to
    review. What is empty bounds nothing."""

    connections: list[str] = Field(default_factory=list)
    connection_tags: dict[str, str] = Field(default_factory=dict)
    groups: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, scope: SinkScope) -> ScopeBody:
        return cls(connections=[*scope.connections], connection_tags={**scope.connection_tags}, groups=[*scope.groups])

    def scope(self) -> SinkScope:
        return SinkScope(tuple(self.connections), self.connection_tags, tuple(self.groups))


class SinkChange(Body):
    """What is left out, or null, stays as it is."""

    read_only: ClassVar[frozenset[str]] = frozenset(
        {"id", "status", "header_names", "key_names", "signing_secrets", "created_at", "updated_at", "delivered_at"}
        | {"failures", "failing_since", "last_error", "next_attempt_at", "secret"}
    )

    name: str | None = None
    kind: _Kind | None = None
    address: str | None = Field(None, description="https://…, or syslog+tls://, syslog+tcp://, syslog+udp://HOST:PORT")
    events: _Events | None = None
    paused: bool | None = None
    with_script: bool | None = Field(None, description="Whether sessions are told with their script")
    authority: str | None = Field(None, description="PEM of the receiver's CA; empty when it is publicly trusted")
    headers: dict[str, str] | None = Field(None, description="Sent with each request; never shown again")
    options: dict[str, str] | None = Field(
        None, description="slack: channel, app_id, team_id; email: from, to (parted by commas)"
    )
    keys: dict[str, str] | None = Field(
        None,
        description="Never shown again; what is left out stays. slack: bot_token, signing_secret; email: username, "
        "password; teams and apprise: url",
    )
    scope: ScopeBody | None = Field(None, description="Of which reviews it is told")

    def fields(self) -> SinkFields:
        return SinkFields(
            name=self.name,
            kind=self.kind,
            address=self.address,
            events=None if self.events is None else tuple(self.events),
            paused=self.paused,
            with_script=self.with_script,
            authority=self.authority,
            headers=secret_values(self.headers),
            options=self.options,
            keys=secret_values(self.keys),
            scope=None if self.scope is None else self.scope.scope(),
        )


class SinkRequest(SinkChange):
    name: str
    kind: _Kind
    address: str = Field(
        "",
        description="https://…, or syslog+tls://, syslog+tcp://, syslog+udp://, smtps://, smtp+starttls://HOST:PORT; "
        "not for teams and apprise, whose address is keys.url; of slack only where its API is elsewhere",
    )
    events: _Events = Field(default_factory=list, description="For a chat, all of reviews where none is named")


class SinkAnswer(Answer):
    id: UUID
    name: str
    kind: SinkKind
    address: str
    events: list[EventKind]
    status: SinkStatus = Field(description="gone: the receiver answered that it wants no events any more")
    paused: bool
    with_script: bool
    authority: str
    header_names: list[str]
    options: dict[str, str]
    key_names: list[str]
    scope: ScopeBody
    created_at: datetime | None
    updated_at: datetime | None
    delivered_at: datetime | None = Field(description="When it took an event last")
    failures: int = Field(description="How often in a row the next event could not be delivered")
    failing_since: datetime | None
    last_error: str
    next_attempt_at: datetime | None

    @classmethod
    def of(cls, sink: Sink) -> SinkAnswer:
        return cls(**_shown(sink))


class NewSinkAnswer(SinkAnswer):
    secret: str | None = Field(description="What a webhook's events are signed with: shown this once")

    @classmethod
    def made(cls, sink: Sink, secret: Secret | None) -> NewSinkAnswer:
        return cls(**_shown(sink), secret=secret.reveal() if secret else None)


class SinkSecretAnswer(Answer):
    secret: str = Field(description="Shown this once; the one before it signs, too, for 24 hours")


class SinkTestAnswer(Answer):
    __test__ = False

    number: int = Field(description="Of the delivery; the list of deliveries says how it went")


class RedeliverRequest(Body):
    number: int | None = Field(None, description="Of one delivery; all that were given up when it is left out")


class RedeliverAnswer(Answer):
    waiting: int = Field(description="How many wait anew")


class DeliveryAnswer(Answer):
    number: int
    event_id: UUID = Field(description="The same for each try, and each sink")
    event: EventKind
    created_at: datetime
    state: DeliveryState
    attempts: int
    last_error: str
    attempted_at: datetime | None
    body: dict[str, Any]

    @classmethod
    def of(cls, delivery: Delivery) -> DeliveryAnswer:
        return cls(
            number=delivery.number,
            event_id=delivery.event_id,
            event=delivery.event,
            created_at=delivery.at,
            state=delivery.state,
            attempts=delivery.attempts,
            last_error=delivery.error,
            attempted_at=delivery.attempted_at,
            body=json.loads(delivery.body),
        )


def _shown(sink: Sink) -> dict[str, Any]:
    names = ("id", "name", "kind", "address", "status", "with_script", "authority")
    return {name: getattr(sink, name) for name in (*names, "created_at", "updated_at", "delivered_at")} | {
        "events": list(sink.events),
        "paused": sink.status is SinkStatus.PAUSED,
        "header_names": sorted(sink.headers),
        "options": dict(sink.options),
        "key_names": sorted(sink.keys),
        "scope": ScopeBody.of(sink.scope),
        "failures": sink.trouble.failures,
        "failing_since": sink.trouble.since,
        "last_error": sink.trouble.error,
        "next_attempt_at": sink.trouble.next_at,
    }
