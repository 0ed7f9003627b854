"""The fields of chat sinks: address, options and keys, with their checks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from postern.domain.event import EventKind
from postern.domain.secret import Secret
from postern.domain.sink import CHATS, Sink, SinkKind, SinkScope
from postern.errors import Invalid
from postern.services.server.server_addresses import MAX_URL, checked_url, is_loopback

SLACK_API = "https://slack.com/api"
MAIL_SCHEMES = ("smtps", "smtp+starttls", "smtp")
MAX_RECIPIENTS = 50
MAX_NAMED = 100  # connections, tags or groups of a scope
MAX_KEY = 4_000
APPRISE_HOSTED = frozenset(
    {"discord", "tgram", "pover", "gchat", "pagerduty", "opsgenie", "wxteams", "webex", "pbul", "flock", "prowl"}
    | {"signl4", "ilert", "incidentio", "squadcast", "spike"}
)  # which go to their vendor's own host, whatever the rest of the address says
APPRISE_DIRECT = frozenset(
    {"json", "jsons", "form", "forms", "xml", "xmls", "gotify", "gotifys", "mmost", "mmosts"}
)  # which go to the host that the address names

# (options, keys) of each kind; what is marked True must be there.
_NEEDS: Mapping[SinkKind, tuple[Mapping[str, bool], Mapping[str, bool]]] = {
    SinkKind.SLACK: (
        {"channel": True, "app_id": True, "team_id": True},
        {"bot_token": True, "signing_secret": True},
    ),
    SinkKind.TEAMS: ({}, {"url": True}),
    SinkKind.EMAIL: ({"from": True, "to": True}, {"username": False, "password": False}),
    SinkKind.APPRISE: ({}, {"url": True}),
}
_PATTERNS = {
    "channel": re.compile(r"[CGD][A-Z0-9]{2,40}"),
    "app_id": re.compile(r"A[A-Z0-9]{2,40}"),
    "team_id": re.compile(r"[TE][A-Z0-9]{2,40}"),
    "signing_secret": re.compile(r"[0-9A-Za-z]{32,128}"),
    "bot_token": re.compile(r"xox[a-z]-[0-9A-Za-z-]{10,500}"),
}
_MAIL = re.compile(r"[^@\s,;<>()\"\\\[\]:\x00-\x20\x7f-\uffff]{1,64}@[A-Za-z0-9.-]{1,253}")


def recipients(text: str) -> tuple[str, ...]:
    """Split e-mail addresses at commas."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def checked_chat(sink: Sink) -> Sink:
    """Return the sink if its chat fields are valid; other sinks have neither options nor keys. Raises Invalid."""
    options, keys = _NEEDS.get(sink.kind, ({}, {}))
    _require_names("options", sink.options, options)
    _require_names("keys", sink.keys, keys)
    for name, value in (*sink.options.items(), *((name, key.reveal()) for name, key in sink.keys.items())):
        if not value or len(value) > MAX_KEY or not value.isascii() or not value.isprintable():
            raise Invalid(f"{name}: must be printable ASCII, at most {MAX_KEY} characters", field=name)
        if name in _PATTERNS and not _PATTERNS[name].fullmatch(value):
            raise Invalid(f"{name}: is not valid; see docs/how-to/review-notifications.md", field=name)
    if sink.kind not in CHATS:
        return sink
    if sink.headers:
        raise Invalid("headers: only webhooks and collectors can have headers", field="headers")
    if any(not event.startswith("review.") for event in sink.events):
        raise Invalid("events: chats support only review events", field="events")
    return sink


def checked_events(events: tuple[EventKind, ...], kind: SinkKind) -> tuple[EventKind, ...]:
    """Return the events; all those of reviews, for a chat that names none."""
    if events or kind not in CHATS:
        return events
    return tuple(event for event in EventKind if event.startswith("review."))


def address_of(sink: Sink, address: str | None) -> str:
    """Return the address as stored and shown. Raises Invalid."""
    if sink.kind is SinkKind.SLACK:
        return checked_url(address or sink.address or SLACK_API, "address", "receiver of messages")
    if sink.kind is SinkKind.EMAIL:
        return _checked_mail(sink, address or sink.address)
    if address:
        raise Invalid("address: the address of this kind of sink is a secret; set keys.url instead", field="address")
    url = sink.keys["url"].reveal() if "url" in sink.keys else ""
    if sink.kind is SinkKind.TEAMS:
        parts = urlsplit(checked_url(url, "keys.url", "receiver of messages"))
        return f"{parts.scheme}://{parts.hostname}/…"
    return f"{_checked_apprise(url)}://…"


def checked_scope(scope: SinkScope) -> SinkScope:
    """Return the scope if it is valid. Raises Invalid."""
    names = (*scope.connections, *scope.groups, *scope.connection_tags, *scope.connection_tags.values())
    if max(len(scope.connections), len(scope.groups), len(scope.connection_tags)) > MAX_NAMED:
        raise Invalid(f"scope: at most {MAX_NAMED} connections, groups and tags each", field="scope")
    if any(len(name) > 256 or not name.isprintable() for name in names) or not all(scope.connections + scope.groups):
        raise Invalid("scope: names must have 1 to 256 printable characters", field="scope")
    return scope


def _require_names(what: str, values: Mapping[str, object], possible_names: Mapping[str, bool]) -> None:
    for name in values:
        if name not in possible_names:
            possible = ", ".join(possible_names) or "none"
            raise Invalid(f"{what}: this kind of sink has no {name!r} (it has: {possible})", field=what)
    for name, is_needed in possible_names.items():
        if is_needed and name not in values:
            raise Invalid(f"{what}.{name}: is required for this kind of sink", field=what)


def _checked_mail(sink: Sink, address: str) -> str:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    plain = address.isascii() and address.isprintable() and " " not in address and len(address) <= MAX_URL
    if not plain or parts.scheme not in MAIL_SCHEMES or not host or not port or parts.path or parts.query:
        raise Invalid("address: must be smtps://HOST:PORT or smtp+starttls://HOST:PORT", field="address")
    if parts.username is not None or parts.fragment:
        raise Invalid("address: must be a host without a user name", field="address")
    if parts.scheme == "smtp" and not is_loopback(host):
        raise Invalid("address: without TLS mail goes to loopback only; use smtp+starttls:// or smtps://")
    to = recipients(sink.options.get("to", ""))
    if not to or len(to) > MAX_RECIPIENTS:
        raise Invalid(f"options.to: must name 1 to {MAX_RECIPIENTS} addresses, separated by commas", field="options")
    if not all(_MAIL.fullmatch(mail_address) for mail_address in (sink.options.get("from", ""), *to)):
        raise Invalid("options: `from` and `to` must be e-mail addresses, without names", field="options")
    if ("username" in sink.keys) is not ("password" in sink.keys):
        raise Invalid("keys: username and password must be set together", field="keys")
    return address


def _checked_apprise(url: str) -> str:
    """Return the scheme of the address. Raises Invalid."""
    scheme = url.partition("://")[0].lower()
    if "://" not in url or scheme not in APPRISE_HOSTED | APPRISE_DIRECT or any(c in url for c in " ,\\"):
        possible = ", ".join(sorted(APPRISE_HOSTED | APPRISE_DIRECT))
        raise Invalid(f"keys.url: must be one Apprise URL that begins with one of: {possible}", field="keys")
    return scheme


def secret_values(values: Mapping[str, str] | None) -> Mapping[str, Secret] | None:
    return None if values is None else {name: Secret(value) for name, value in values.items()}
