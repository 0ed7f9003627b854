"""All other chats, by Apprise (https://github.com/caronc/apprise), an extra that is loaded on first use.

Apprise opens connections by itself. So it is used only for services at their vendor's own host, and for hosts in the
URL only if they are IP addresses in networks that this machine's settings name.
"""

from __future__ import annotations

import asyncio
import ipaddress
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

from postern.domain.chat import Card
from postern.domain.sink import Sink
from postern.errors import Denied, Unavailable
from postern.integrations.sinks.receivers import Receivers

MAX_INPUT = 1_500
PATIENCE = 4.0  # seconds to connect, and for each read
THREADS = 4
_DEFAULT_PORTS = {True: 443, False: 80}

Where = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


class Apprise:
    """The notifier. `hosted` and `direct` are the accepted schemes, as in services/notifications/chat_fields.py."""

    def __init__(self, receivers: Receivers, hosted: frozenset[str], direct: frozenset[str]) -> None:
        self._receivers = receivers
        self._hosted = hosted
        self._direct = direct
        # Separate threads: a receiver that hangs blocks only others of this kind.
        self._threads = ThreadPoolExecutor(THREADS, "apprise")

    async def notify(self, sink: Sink, card: Card, previous: tuple[str, str] | None, event_id: UUID) -> tuple[str, str]:
        lines = [card.state, *(f"{label}: {value}" for label, value in card.facts)]
        if card.input:
            lines += ["", card.input[:MAX_INPUT] + ("\n… (more on the page)" if len(card.input) > MAX_INPUT else "")]
        await self._send(sink, card.title, "\n".join([*lines, "", card.url]))
        return "", ""

    async def say(self, sink: Sink, text: str) -> None:
        await self._send(sink, "Postern", text)

    async def _send(self, sink: Sink, title: str, body: str) -> None:
        url = sink.keys["url"].reveal()
        where = await self._check(url)
        loop = asyncio.get_running_loop()
        if not await loop.run_in_executor(self._threads, _notify, url, title, body, where):
            raise Unavailable("the chat rejected this message, or cannot be reached; Apprise reports no reason")

    async def _check(self, url: str) -> Where | None:
        """Return the host of a URL; None if it is the vendor's. Raises Denied, Unavailable."""
        scheme = url.partition("://")[0].lower()
        if scheme in self._hosted:
            return None
        if scheme not in self._direct:
            raise Denied(f"the Apprise service {scheme}:// is not supported")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[scheme.endswith("s")]
            address = ipaddress.ip_address(host)
        except ValueError:
            raise Denied("the host must be an IP address, because Apprise would resolve a name again") from None
        await self._receivers.address_of(host, port, private=True)
        return address, port


def _notify(url: str, title: str, body: str, where: Where | None) -> bool:
    """Send in a thread: Apprise blocks. Raises Denied if it would connect elsewhere."""
    try:
        import apprise
    except ImportError:
        raise Unavailable("Apprise is not installed here; run: pip install apprise") from None
    asset = apprise.AppriseAsset(http_redirects=False, secure_logging=True, async_mode=False)
    service: Any = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if service is None:
        raise Denied("Apprise cannot read this address")
    if getattr(service, "template", None):
        raise Denied("Apprise would fetch a template from a URL in the address")
    if where is not None and where != _where(service):
        raise Denied("Apprise finds a different host in this address")
    # Whatever the URL sets.
    service.redirects, service.verify_certificate = False, True
    service.socket_connect_timeout = service.socket_read_timeout = PATIENCE
    try:
        return bool(service.notify(body=body, title=title, body_format=apprise.NotifyFormat.TEXT))
    except Exception as error:  # its text may contain the URL, which is a secret
        raise Unavailable(f"Apprise failed: {type(error).__name__}") from None


def _where(service: Any) -> Where | None:
    try:
        address = ipaddress.ip_address(str(service.host).strip("[]"))
    except ValueError:
        return None
    return address, service.port or _DEFAULT_PORTS[bool(service.secure)]
