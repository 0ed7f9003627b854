"""Sinks: receivers of events, managed by administrators. A sink's host is checked when it is saved, by the same rule as
at connection time."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from cryptography import x509

from postern.domain.addresses import AllowedNetworks, check_saved, parse_host
from postern.domain.event import CHOSEN, EventKind
from postern.domain.identity.principal import Principal
from postern.domain.lists import Page, Stretch
from postern.domain.resource_names import MAX_NAME
from postern.domain.secret import Secret
from postern.domain.sink import CHATS, NO_TROUBLE, Delivery, DeliveryState, SigningSecret, Sink, SinkKind, SinkStatus
from postern.errors import Conflict, Invalid, NotFound
from postern.services.identity.users import require_admin, require_reader
from postern.services.named_resources import ResourceService
from postern.services.notifications.chat_fields import APPRISE_DIRECT, checked_chat, checked_events, checked_scope
from postern.services.notifications.chat_fields import address_of as chat_address
from postern.services.notifications.event_payloads import test_of
from postern.services.server.audit_context import record_change
from postern.services.server.server_addresses import MAX_URL, checked_url
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.notification_ports import DeliveryStore, SinkStore

_WITHOUT_TLS = frozenset({"syslog+tcp", "syslog+udp", "smtp"})


def check_receiver(sink: Sink, allowed: AllowedNetworks) -> None:
    """Raise Invalid for an address to which this server never connects."""
    field = "keys.url" if sink.kind in (SinkKind.TEAMS, SinkKind.APPRISE) else "address"
    address = sink.keys["url"].reveal() if field == "keys.url" else sink.address
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
    except ValueError:
        raise Invalid(f"{field}: is not a URL", field=field) from None
    scheme = parts.scheme.lower()
    is_direct = sink.kind is SinkKind.APPRISE and scheme in APPRISE_DIRECT
    if sink.kind is SinkKind.APPRISE and not is_direct:
        return  # goes to its vendor's own host, whatever the address says
    if is_direct and parse_host(host) is None:
        raise Invalid(f"{field}: the host must be an IP address, since Apprise would resolve a name again", field=field)
    private = is_direct or scheme in _WITHOUT_TLS
    check_saved(host, allowed.networks, allowed.setting, field, private=private)


MAX_NUMBER = 1 << 63  # of a delivery
MAX_HEADERS, MAX_HEADER = 10, 4_000
MAX_AUTHORITY = 20_000
OVERLAP = timedelta(hours=24)  # in which a replaced secret still signs
SYSLOG_SCHEMES = ("syslog+tls", "syslog+tcp", "syslog+udp")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_OWN_HEADERS = frozenset({"host", "content-length", "content-type", "connection", "transfer-encoding"})


class Sinks(ResourceService[Sink]):
    """Secrets are written and never read, so a replacement that leaves them out keeps them."""

    noun = "sink"
    preserved_fields = frozenset({"secrets", "headers", "keys"})

    def __init__(
        self, store: SinkStore, deliveries: DeliveryStore, signals: Signals, now: Clock, networks: AllowedNetworks
    ) -> None:
        super().__init__(store, signals, now)
        self._deliveries = deliveries
        self._networks = networks

    def blank(self, key: UUID, org_id: UUID) -> Sink:
        return Sink(key, org_id, "", SinkKind.WEBHOOK, "", ())

    def check_name(self, name: str) -> None:
        if not 1 <= len(name.strip()) <= MAX_NAME or not name.isprintable():
            raise Invalid(f"name: must have 1 to {MAX_NAME} printable characters", field="name")

    async def resolve(self, current: Sink, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Translate `paused` into the status; omitted keys are kept."""
        kind = fields.get("kind", current.kind)
        if current.name and kind is not current.kind:
            raise Invalid("kind: cannot be changed; create another sink", field="kind")
        resolved = {name: value for name, value in fields.items() if name != "paused"}
        if "paused" in fields:
            resolved["status"] = SinkStatus.PAUSED if fields["paused"] else SinkStatus.ACTIVE
        if "keys" in resolved:
            resolved["keys"] = {**current.keys, **resolved["keys"]}
        if kind in CHATS:  # `merge` says what of it is shown
            resolved.pop("address", None)
        checks: dict[str, Callable[[Any], Any]] = {
            "scope": checked_scope,
            "authority": _checked_authority,
            "address": lambda address: _checked_address(address, kind),
            "events": lambda events: _checked_events(checked_events(events, kind)),
            "headers": lambda headers: _checked_headers(headers, kind),
        }
        return {name: checks[name](value) if name in checks else value for name, value in resolved.items()}

    async def merge(self, current: Sink, base: Sink, fields: Mapping[str, Any]) -> Sink:
        """Merge the fields. A sink with a new address needs its secrets again, and a webhook gets another signing
        secret."""
        sink = await super().merge(current, base, fields)
        if sink.kind in CHATS:
            sink = checked_chat(replace(sink, events=checked_events(sink.events, sink.kind)))
            sink = replace(sink, address=chat_address(sink, fields.get("address") or None))
        for name in ("address", "events"):
            if not getattr(sink, name):
                raise Invalid(f"{name}: is required", field=name)
        sink = checked_chat(sink)
        if sink.address != current.address or "keys" in fields:
            check_receiver(sink, self._networks)
        _require_secrets_anew(current, sink, fields)
        if sink.kind is SinkKind.WEBHOOK and sink.address != current.address:
            secret = _new_secret()
            sink = replace(sink, secrets=(SigningSecret(secret),), new_secret=secret)
        return sink

    async def publish_write(self, before: Sink | None, after: Sink) -> Sink:
        return replace(await super().publish_write(before, after), new_secret=after.new_secret)

    async def announce(self, before: Sink | None, after: Sink | None) -> None:
        """Signal nothing: delivery reads sinks anew in each round."""

    def is_same(self, before: Sink, after: Sink) -> bool:
        """Write every change after failures: it ends the pause before the next attempt."""
        return before.trouble == NO_TROUBLE and super().is_same(before, after)

    def audit_view(self, resource: Sink) -> object:
        """Return the fields, and of headers and keys only their names."""
        names = ("id", "name", "kind", "address", "events", "status", "with_script", "options", "scope")
        values = {name: getattr(resource, name) for name in names}
        return values | {"header_names": sorted(resource.headers), "set": sorted(resource.keys)}

    async def rotate(self, principal: Principal, name_or_id: str) -> Secret:
        """Return a new secret, shown once; the previous one signs, too, for a day. Raises Denied, NotFound, Invalid,
        Conflict."""
        self.require_admin(principal)
        current = await self.existing(principal, name_or_id)
        if current.kind is not SinkKind.WEBHOOK:
            raise Invalid("kind: only webhooks have signing secrets", field="kind")
        now, secret = self._now(), _new_secret()
        before = replace(current.secrets[0], until=now + OVERLAP)
        await self.write(current, replace(current, secrets=(SigningSecret(secret), before), updated_at=now))
        return secret

    async def test(self, principal: Principal, name_or_id: str) -> int:
        """Send a test event and return the number of its delivery, which shows the result. Raises Denied, NotFound,
        Conflict."""
        require_admin(principal, "test sinks")
        sink = await self.existing(principal, name_or_id)
        if sink.status is not SinkStatus.ACTIVE:
            raise Conflict(f"this sink is {sink.status}; set `paused` to false first")
        number = await self._deliveries.add(test_of(sink, self._now()))
        record_change(None, {"sink": sink.name, "delivery": number})
        return number

    async def redeliver(self, principal: Principal, name_or_id: str, number: int | None) -> int:
        """Queue one event again, or with None all given-up ones; return how many. Raises Denied, NotFound.

        They go before those that came after them, with the same id.
        """
        require_admin(principal, "resend events of sinks")
        if number is not None and not 0 < number < MAX_NUMBER:
            raise NotFound(f"there is no delivery {number}, or it is already waiting")
        sink = await self.existing(principal, name_or_id)
        count = await self._deliveries.retry(sink.id, number)
        if number is not None and not count:
            raise NotFound(f"there is no delivery {number}, or it is already waiting")
        record_change(None, {"sink": sink.name, "delivery": number, "waiting": count})
        return count

    async def deliveries(
        self, principal: Principal, name_or_id: str, state: DeliveryState | None, page: Page
    ) -> Stretch[Delivery]:
        """Return deliveries, newest first. Raises Denied, NotFound."""
        require_reader(principal, "sinks")
        sink = await self.existing(principal, name_or_id)
        return await self._deliveries.find(sink.id, state, page)


def _new_secret() -> Secret:
    return Secret("whsec_" + base64.b64encode(os.urandom(32)).decode())


def _require_secrets_anew(current: Sink, sink: Sink, fields: Mapping[str, Any]) -> None:
    """Raise Invalid where stored secrets would go to a different receiver: users who change a sink
    must not get them."""
    if (sink.address, sink.authority) == (current.address, current.authority):
        return
    headers = () if "headers" in fields else current.headers.keys()
    keys = current.keys.keys() - fields.get("keys", {}).keys()
    for field, names in (("headers", headers), ("keys", keys)):
        if names:
            raise Invalid(
                f"{field}: the address or authority has changed, and its secrets would be sent there; give them again: "
                f"{', '.join(sorted(names))}",
                field=field,
            )


def _checked_address(address: str, kind: SinkKind) -> str:
    if kind is not SinkKind.SYSLOG:
        return checked_url(address, "address", "receiver of events")
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    plain = address.isascii() and address.isprintable() and " " not in address and len(address) <= MAX_URL
    if not plain or parts.scheme not in SYSLOG_SCHEMES or not host or not port or parts.path or parts.query:
        raise Invalid(
            f"address: must be {', '.join(f'{scheme}://' for scheme in SYSLOG_SCHEMES)} and HOST:PORT", field="address"
        )
    if parts.username is not None or parts.fragment:
        raise Invalid("address: must be a host without a user name", field="address")
    return address


def _checked_events(kinds: tuple[EventKind, ...]) -> tuple[EventKind, ...]:
    if not kinds or EventKind.SINK_TEST in kinds:
        raise Invalid(f"events: must name at least one of {', '.join(CHOSEN)}", field="events")
    return tuple(dict.fromkeys(kinds))


def _checked_authority(text: str) -> str:
    if not text:
        return ""
    try:
        if len(text) > MAX_AUTHORITY:
            raise ValueError
        x509.load_pem_x509_certificates(text.encode())
    except ValueError:
        raise Invalid("authority: must be one or more certificates in PEM form", field="authority") from None
    return text


def _checked_headers(headers: Mapping[str, Secret], kind: SinkKind) -> dict[str, Secret]:
    if headers and kind is SinkKind.SYSLOG:
        raise Invalid("headers: syslog sinks have no headers", field="headers")
    for name, value in headers.items():
        text = value.reveal()
        if not _HEADER.fullmatch(name) or name.lower() in _OWN_HEADERS or name.lower().startswith("webhook-"):
            raise Invalid(f"headers: {name!r} cannot be set", field="headers")
        if len(text) > MAX_HEADER or not text.isascii() or not text.isprintable():
            raise Invalid(f"headers: the value of {name!r} must be printable ASCII", field="headers")
    if len(headers) > MAX_HEADERS:
        raise Invalid(f"headers: at most {MAX_HEADERS}", field="headers")
    return dict(headers)
