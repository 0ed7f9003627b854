"""Bodies of sinks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, ClassVar
from uuid import UUID

from pydantic import AliasPath, BeforeValidator, Field

from postern.api.schemas.common import Answer, Body, NamedResourceAnswer, ResourceBody, SortedNames, secret
from postern.domain.event import EventKind
from postern.domain.sink import Delivery, DeliveryState, SinkKind, SinkScope, SinkStatus
from postern.services.notifications.chat_fields import secret_values

_Kind = Annotated[SinkKind, Field(strict=False)]
_Events = list[Annotated[EventKind, Field(strict=False)]]


class ScopeBody(Body):
    """A filter of reviews: on one of these connections, or one with all of the tags; and for one of these groups. Empty
    fields do not limit."""

    connections: list[str] = Field(default_factory=list)
    connection_tags: dict[str, str] = Field(default_factory=dict)
    groups: list[str] = Field(default_factory=list)

    @classmethod
    def of(cls, scope: SinkScope) -> ScopeBody:
        return cls(connections=[*scope.connections], connection_tags={**scope.connection_tags}, groups=[*scope.groups])

    def scope(self) -> SinkScope:
        return SinkScope(tuple(self.connections), self.connection_tags, tuple(self.groups))


class SinkRequest(ResourceBody):
    read_only: ClassVar[frozenset[str]] = frozenset(
        {"id", "status", "header_names", "key_names", "signing_secrets", "created_at", "updated_at", "delivered_at"}
        | {"failures", "failing_since", "last_error", "next_attempt_at", "secret"}
    )

    name: str
    kind: _Kind = Field(description="Cannot be changed")
    address: str | None = Field(
        None,
        description="https://…, or syslog+tls://, syslog+tcp://, syslog+udp://, smtps://, smtp+starttls://HOST:PORT; "
        "not for teams and apprise, whose address is keys.url; for slack only if its API is at a "
        "different address",
    )
    events: _Events | None = Field(None, description="For a chat, the default is all review events")
    paused: bool | None = None
    with_script: bool | None = Field(None, description="Whether events of sessions contain their script")
    authority: str | None = Field(None, description="PEM of the receiver's CA; empty if it is publicly trusted")
    headers: dict[str, str] | None = Field(
        None,
        description="Sent with each request; never shown. If left out, they keep their values",
        json_schema_extra=secret("header_names"),
    )
    options: dict[str, str] | None = Field(
        None, description="slack: channel, app_id, team_id; email: from, to (separated by commas)"
    )
    keys: dict[str, str] | None = Field(
        None,
        description="Never shown; those left out keep their values. slack: bot_token, signing_secret; email: "
        "username, password; teams and apprise: url",
        json_schema_extra=secret("key_names", keeps=True),
    )
    scope: ScopeBody | None = Field(None, description="Reviews for which it gets events")

    def fields(self) -> dict[str, Any]:
        converters: Mapping[str, Callable[[Any], Any]] = {
            "events": tuple,
            "headers": secret_values,
            "keys": secret_values,
            "scope": ScopeBody.scope,
        }
        return {name: converters.get(name, lambda same: same)(value) for name, value in super().fields().items()}


class SinkAnswer(NamedResourceAnswer):
    kind: SinkKind
    address: str
    events: list[EventKind]
    status: SinkStatus = Field(description="gone: the receiver answered that it accepts no more events")
    paused: bool
    with_script: bool
    authority: str
    header_names: SortedNames = Field(validation_alias="headers")
    options: dict[str, str]
    key_names: SortedNames = Field(validation_alias="keys")
    scope: Annotated[ScopeBody, BeforeValidator(ScopeBody.of)]
    created_at: datetime | None
    updated_at: datetime | None
    delivered_at: datetime | None = Field(description="Time of the last delivery")
    failures: int = Field(
        validation_alias=AliasPath("trouble", "failures"),
        description="Failed attempts in a row to deliver the next event",
    )
    failing_since: datetime | None = Field(validation_alias=AliasPath("trouble", "since"))
    last_error: str = Field(validation_alias=AliasPath("trouble", "error"))
    next_attempt_at: datetime | None = Field(validation_alias=AliasPath("trouble", "next_at"))


class NewSinkAnswer(SinkAnswer):
    secret: Annotated[str | None, BeforeValidator(lambda secret: secret and secret.reveal())] = Field(
        validation_alias="new_secret", description="Secret that signs a webhook's events: shown only once"
    )


class SinkSecretAnswer(Answer):
    secret: str = Field(description="Shown only once; the old one also signs for 24 hours")


class SinkTestAnswer(Answer):
    __test__ = False

    number: int = Field(description="Id of the delivery; the list of deliveries shows its result")


class RedeliverRequest(Body):
    number: int | None = Field(None, description="Id of one delivery; default: all that were given up")


class RedeliverAnswer(Answer):
    waiting: int = Field(description="Number of deliveries that are queued again")


class DeliveryAnswer(Answer):
    number: int
    event_id: UUID = Field(description="The same for each attempt, and each sink")
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
