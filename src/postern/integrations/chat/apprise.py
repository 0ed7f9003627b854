"""All other chats, by Apprise (https://github.com/caronc/apprise), which is an extra and loaded only when it is used.

Apprise dials by itself. So only services are taken that go to their vendor's own host, and, of those that go to a host
which the address names, hosts that are addresses in networks which the settings of this machine name.
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
    """`hosted` and `direct` are the schemes that are taken, as services/notifications/chat_fields.py has them."""

    def __init__(self, receivers: Receivers, hosted: frozenset[str], direct: frozenset[str]) -> None:
        self._receivers = receivers
        self._hosted = hosted
        self._direct = direct
        # Of its own: threads that a receiver keeps are missed by nobody but others of this kind.
        self._threads = ThreadPoolExecutor(THREADS, "apprise")

    async def notify(self, sink: Sink, card: Card, known: tuple[str, str] | None, event_id: UUID) -> tuple[str, str]:
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
            raise Unavailable("the chat did not take this, or cannot be reached; Apprise says no more")

    async def _check(self, url: str) -> Where | None:
        """Where it may go; None where the vendor says. Raises Denied, Unavailable."""
        scheme = url.partition("://")[0].lower()
        if scheme in self._hosted:
            return None
        if scheme not in self._direct:
            raise Denied(f"{scheme}: is not among the services of Apprise that are taken")
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[scheme.endswith("s")]
            address = ipaddress.ip_address(host)
        except ValueError:
            raise Denied("the host must be an address, and no name: Apprise would look a name up anew") from None
        await self._receivers.address_of(host, port, private=True)
        return address, port


def _notify(url: str, title: str, body: str, where: Where | None) -> bool:
    """In a thread: Apprise waits for what it sends. Raises Denied where it would go elsewhere."""
    try:
        import apprise
    except ImportError:
        raise Unavailable("Apprise is not installed here: pip install 'postern[apprise]'") from None
    asset = apprise.AppriseAsset(http_redirects=False, secure_logging=True, async_mode=False)
    made: Any = apprise.Apprise.instantiate(url, asset=asset, suppress_exceptions=True)
    if made is None:
        raise Denied("Apprise cannot read this address")
    if getattr(made, "template", None):
        raise Denied("Apprise would fetch a template from wherever the address says")
    if where is not None and where != _where(made):
        raise Denied("Apprise reads another host in this address than others do")
    # Whatever the address says.
    made.redirects, made.verify_certificate = False, True
    made.socket_connect_timeout = made.socket_read_timeout = PATIENCE
    try:
        return bool(made.notify(body=body, title=title, body_format=apprise.NotifyFormat.TEXT))
    except Exception as error:  # its text may have the address, which is a secret
        raise Unavailable(f"Apprise failed: {type(error).__name__}") from None


def _where(made: Any) -> Where | None:
    try:
        address = ipaddress.ip_address(str(made.host).strip("[]"))
    except ValueError:
        return None
    return address, made.port or _DEFAULT_PORTS[bool(made.secure)]
