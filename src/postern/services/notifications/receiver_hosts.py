"""The host that a sink sends to, checked when the sink is saved by the same rule as when it is connected to."""

from __future__ import annotations

from urllib.parse import urlsplit

from postern.domain.addresses import AllowedNetworks, check_saved, parse_host
from postern.domain.sink import Sink, SinkKind
from postern.errors import Invalid
from postern.services.notifications.chat_fields import APPRISE_DIRECT

_WITHOUT_TLS = frozenset({"syslog+tcp", "syslog+udp", "smtp"})


def check_receiver(sink: Sink, allowed: AllowedNetworks) -> None:
    """Raises Invalid for an address that this server never connects to."""
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
        raise Invalid(f"{field}: the host must be an IP address, since Apprise would look a name up again", field=field)
    private = is_direct or scheme in _WITHOUT_TLS
    check_saved(host, allowed.networks, allowed.setting, field, private=private)
