"""Sinks: what administrators say about where events go."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from cryptography import x509

from postern.domain.addresses import AllowedNetworks
from postern.domain.event import CHOSEN, EventKind
from postern.domain.lists import Listed, Page, Stretch
from postern.domain.principal import Principal
from postern.domain.secret import Secret
from postern.domain.sink import (
    CHATS,
    Delivery,
    DeliveryState,
    SigningSecret,
    Sink,
    SinkKind,
    SinkScope,
    SinkStatus,
)
from postern.errors import Conflict, Invalid, NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.server.addresses import MAX_URL, checked_url
from postern.services.server.trail import changed
from postern.services.telling.chat_fields import address_of as chat_address
from postern.services.telling.chat_fields import checked_chat, checked_events, checked_scope
from postern.services.telling.events import test_of
from postern.services.telling.receiver_hosts import check_receiver
from postern.store.ports.common import Clock
from postern.store.ports.telling import DeliveryStore, SinkStore

MAX_NUMBER = 1 << 63  # of a delivery
MAX_SINKS = 20  # of an organisation
MAX_HEADERS, MAX_HEADER = 10, 4_000
MAX_AUTHORITY = 20_000
OVERLAP = timedelta(hours=24)  # that a secret which was replaced signs, too
SYSLOG_SCHEMES = ("syslog+tls", "syslog+tcp", "syslog+udp")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_OWN_HEADERS = frozenset({"host", "content-length", "content-type", "connection", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class SinkFields:
    """What a writer sets; None keeps what is there."""

    name: str | None = None
    kind: SinkKind | None = None
    address: str | None = None
    events: tuple[EventKind, ...] | None = None
    paused: bool | None = None
    with_script: bool | None = None
    authority: str | None = None
    headers: Mapping[str, Secret] | None = None
    options: Mapping[str, str] | None = None
    keys: Mapping[str, Secret] | None = None
    scope: SinkScope | None = None


class Sinks:
    def __init__(self, store: SinkStore, deliveries: DeliveryStore, now: Clock, networks: AllowedNetworks) -> None:
        self._store = store
        self._deliveries = deliveries
        self._now = now
        self._networks = networks

    async def find(self, principal: Principal, page: Page) -> Listed[Sink]:
        """By name. Raises Denied."""
        require_reader(principal, "sinks")
        return await self._store.find(principal.org_id, page)

    async def get(self, principal: Principal, name_or_id: str) -> Sink:
        """Raises Denied, NotFound."""
        require_reader(principal, "sinks")
        return await self._existing(principal, name_or_id)

    async def create(self, principal: Principal, given: SinkFields) -> tuple[Sink, Secret | None]:
        """And the secret that signs what a webhook is sent, which is shown once. Raises Denied, Invalid, Conflict,
        TooMany."""
        require_admin(principal, "change sinks")
        is_chat = given.kind in CHATS
        for field in ("name", "kind", *(() if is_chat else ("address", "events"))):
            if not getattr(given, field):
                raise Invalid(f"{field}: is required", field=field)
        assert given.kind is not None
        kind = given.kind
        if is_chat:
            given = replace(given, events=checked_events(given.events or (), kind))
        now = self._now()
        secret = _new_secret() if kind is SinkKind.WEBHOOK else None
        empty = Sink(uuid4(), principal.org_id, "", kind, "", (), created_at=now)
        sink = replace(
            _merged(empty, given), updated_at=now, secrets=(SigningSecret(secret),) if secret is not None else ()
        )
        check_receiver(sink, self._networks)
        await self._store.add(sink, MAX_SINKS)
        changed(None, _shown(sink))
        return sink, secret

    async def update(self, principal: Principal, name_or_id: str, given: SinkFields) -> tuple[Sink, Secret | None]:
        """And the secret that signs from now on where a webhook leads elsewhere, which is shown once. Also tries again
        at once what waits. Raises Denied, NotFound, Invalid, Conflict."""
        require_admin(principal, "change sinks")
        current = await self._existing(principal, name_or_id)
        if given.kind not in (None, current.kind):
            raise Invalid("kind: a sink stays of its kind; make another one", field="kind")
        sink = replace(_merged(current, given), updated_at=self._now())
        if sink.address != current.address or given.keys is not None:
            check_receiver(sink, self._networks)
        _require_secrets_anew(current, sink, given)
        secret = _new_secret() if sink.secrets and sink.address != current.address else None
        if secret is not None:
            sink = replace(sink, secrets=(SigningSecret(secret),))
        await self._store.update(sink)
        changed(_shown(current), _shown(sink))
        return sink, secret

    async def remove(self, principal: Principal, name_or_id: str) -> None:
        """With all that waits. Raises Denied, NotFound."""
        require_admin(principal, "change sinks")
        current = await self._existing(principal, name_or_id)
        await self._store.remove(current.id)
        changed(_shown(current), None)

    async def rotate(self, principal: Principal, name_or_id: str) -> Secret:
        """The new secret, shown once; the one before it signs, too, for a day. Raises Denied, NotFound, Invalid."""
        require_admin(principal, "change sinks")
        current = await self._existing(principal, name_or_id)
        if current.kind is not SinkKind.WEBHOOK:
            raise Invalid("kind: only what webhooks are sent is signed", field="kind")
        now, secret = self._now(), _new_secret()
        before = replace(current.secrets[0], until=now + OVERLAP)
        await self._store.update(replace(current, secrets=(SigningSecret(secret), before), updated_at=now))
        changed(_shown(current), _shown(current))
        return secret

    async def test(self, principal: Principal, name_or_id: str) -> int:
        """Sends an event that only says that it is a test; the number of its delivery, which tells how that went.
        Raises Denied, NotFound, Conflict."""
        require_admin(principal, "test sinks")
        sink = await self._existing(principal, name_or_id)
        if sink.status is not SinkStatus.ACTIVE:
            raise Conflict(f"this sink is {sink.status}; set `paused` to false first")
        number = await self._deliveries.add(test_of(sink, self._now()))
        changed(None, {"sink": sink.name, "delivery": number})
        return number

    async def redeliver(self, principal: Principal, name_or_id: str, number: int | None) -> int:
        """Lets one event, or with None all that were given up, wait anew: before those that came after it, with the
        same id. How many. Raises Denied, NotFound."""
        require_admin(principal, "send events of sinks again")
        if number is not None and not 0 < number < MAX_NUMBER:
            raise NotFound(f"there is no delivery {number}, or it waits already")
        sink = await self._existing(principal, name_or_id)
        count = await self._deliveries.again(sink.id, number)
        if number is not None and not count:
            raise NotFound(f"there is no delivery {number}, or it waits already")
        changed(None, {"sink": sink.name, "delivery": number, "waiting": count})
        return count

    async def deliveries(
        self, principal: Principal, name_or_id: str, state: DeliveryState | None, page: Page
    ) -> Stretch[Delivery]:
        """Newest first. Raises Denied, NotFound."""
        require_reader(principal, "sinks")
        sink = await self._existing(principal, name_or_id)
        return await self._deliveries.find(sink.id, state, page)

    async def _existing(self, principal: Principal, name_or_id: str) -> Sink:
        found = await self._store.get(principal.org_id, name_or_id)
        if found is None:
            raise NotFound(f"there is no sink {name_or_id!r}")
        return found


def _new_secret() -> Secret:
    return Secret("whsec_" + base64.b64encode(os.urandom(32)).decode())


def _merged(current: Sink, given: SinkFields) -> Sink:
    """Raises Invalid."""
    kept = current
    if given.name is not None:
        if not 1 <= len(given.name.strip()) <= 128 or not given.name.isprintable():
            raise Invalid("name: must have 1 to 128 printable characters", field="name")
        kept = replace(kept, name=given.name)
    if given.options is not None:
        kept = replace(kept, options=dict(given.options))
    if given.keys is not None:  # those that are left out stay: nobody can read them to send them again
        kept = replace(kept, keys={**kept.keys, **given.keys})
    if given.scope is not None:
        kept = replace(kept, scope=checked_scope(given.scope))
    if kept.kind in CHATS:
        kept = replace(kept, address=chat_address(checked_chat(kept), given.address or None))
    elif given.address is not None:
        kept = replace(kept, address=_checked_address(given.address, kept.kind))
    if given.events is not None:
        kept = replace(kept, events=_checked_events(given.events))
    if given.authority is not None:
        kept = replace(kept, authority=_checked_authority(given.authority))
    if given.headers is not None:
        kept = replace(kept, headers=_checked_headers(given.headers, kept.kind))
    if given.with_script is not None:
        kept = replace(kept, with_script=given.with_script)
    if given.paused is not None:
        kept = replace(kept, status=SinkStatus.PAUSED if given.paused else SinkStatus.ACTIVE)
    return checked_chat(kept)


def _require_secrets_anew(current: Sink, sink: Sink, given: SinkFields) -> None:
    """Nobody reads a sink's secrets, and nobody may have them sent to a receiver of their own either. Raises
    Invalid."""
    if (sink.address, sink.authority) == (current.address, current.authority):
        return
    headers = current.headers.keys() if given.headers is None else ()
    keys = current.keys.keys() - (given.keys or {})
    for field, names in (("headers", headers), ("keys", keys)):
        if names:
            raise Invalid(
                f"{field}: this sink would lead elsewhere, and its secrets would go there; give them again: "
                f"{', '.join(sorted(names))}",
                field=field,
            )


def _checked_address(given: str, kind: SinkKind) -> str:
    if kind is not SinkKind.SYSLOG:
        return checked_url(given, "address", "receiver of events")
    try:
        parts = urlsplit(given)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    plain = given.isascii() and given.isprintable() and " " not in given and len(given) <= MAX_URL
    if not plain or parts.scheme not in SYSLOG_SCHEMES or not host or not port or parts.path or parts.query:
        raise Invalid(
            f"address: must be {', '.join(f'{one}://' for one in SYSLOG_SCHEMES)} and HOST:PORT", field="address"
        )
    if parts.username is not None or parts.fragment:
        raise Invalid("address: must be a host's, without user name", field="address")
    return given


def _checked_events(given: tuple[EventKind, ...]) -> tuple[EventKind, ...]:
    if not given or EventKind.SINK_TEST in given:
        raise Invalid(f"events: must name one at least, of {', '.join(CHOSEN)}", field="events")
    return tuple(dict.fromkeys(given))


def _checked_authority(given: str) -> str:
    if not given:
        return ""
    try:
        if len(given) > MAX_AUTHORITY:
            raise ValueError
        x509.load_pem_x509_certificates(given.encode())
    except ValueError:
        raise Invalid("authority: must be the PEM of one certificate or several", field="authority") from None
    return given


def _checked_headers(given: Mapping[str, Secret], kind: SinkKind) -> dict[str, Secret]:
    if given and kind is SinkKind.SYSLOG:
        raise Invalid("headers: syslog has none", field="headers")
    for name, value in given.items():
        text = value.reveal()
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-"):
            raise Invalid(f"headers: {name!r} cannot be set", field="headers")
        if len(text) > MAX_HEADER or not text.isascii() or not text.isprintable():
            raise Invalid(f"headers: the value of {name!r} must be printable ASCII", field="headers")
    if len(given) > MAX_HEADERS:
        raise Invalid(f"headers: {MAX_HEADERS} at most", field="headers")
    return dict(given)


def _shown(sink: Sink) -> dict[str, Any]:
    """For the audit log: what is set, and no more of headers than their names."""
    names = ("id", "name", "kind", "address", "events", "status", "with_script", "options", "scope")
    shown = {name: getattr(sink, name) for name in names}
    return shown | {"header_names": sorted(sink.headers), "set": sorted(sink.keys)}
