"""The sender for each kind of sink.

Webhooks are signed as in github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from postern.domain.addresses import Network
from postern.domain.secret import Secret
from postern.domain.sink import Delivery, Sink, SinkKind
from postern.domain.tracing import NO_TRACER, Attributes, SpanKind, Tracer, within
from postern.integrations.identity.fetch import Resolve, resolve
from postern.integrations.sinks.receivers import Receivers
from postern.integrations.sinks.sink_otlp import OtlpSender
from postern.integrations.sinks.syslog import SyslogSender

_PREFIX = "whsec_"


class WebhookSender:
    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers

    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send one delivery after the other."""
        for one in deliveries:
            body, stamp = one.body.encode(), int(now.timestamp())
            valid = [secret.value for secret in sink.secrets if secret.until is None or secret.until > now]
            headers = {
                "Content-Type": "application/json",
                "User-Agent": "postern",
                "webhook-id": str(one.event_id),
                "webhook-timestamp": str(stamp),
                "webhook-signature": " ".join(signature(secret, str(one.event_id), stamp, body) for secret in valid),
            }
            await self._receivers.post(sink, body, headers)


def signature(secret: Secret, event_id: str, stamp: int, body: bytes) -> str:
    """Return the signature; `stamp` is in seconds since 1970."""
    key = base64.b64decode(secret.reveal().removeprefix(_PREFIX))
    signed = hmac.new(key, f"{event_id}.{stamp}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()


Count = Callable[..., None]


class KindSender(Protocol):
    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send deliveries. Raises as documented in `Sender` of services.events."""


def _ignore_count(_name: str, *_labels: str, by: float = 1) -> None:
    """Discard a count, when metrics are off."""


class Senders:
    def __init__(
        self,
        host: str,
        allowed: tuple[Network, ...] = (),
        *,
        resolver: Resolve = resolve,
        tracer: Tracer = NO_TRACER,
        count: Count = _ignore_count,
        chats: Callable[[Receivers], Mapping[SinkKind, KindSender]] = lambda _: {},
    ) -> None:
        """`count` is called with (metric, kind, outcome, by=events). `chats` makes the senders for chats."""
        self._tracer = tracer
        self._count = count
        self._receivers = Receivers(allowed, resolver=resolver)
        self._by_kind: dict[SinkKind, KindSender] = {
            SinkKind.WEBHOOK: WebhookSender(self._receivers),
            SinkKind.SYSLOG: SyslogSender(self._receivers, host),
            SinkKind.OTLP: OtlpSender(self._receivers, host),
            **chats(self._receivers),
        }

    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """Send deliveries. Raises as documented in `Sender` of services.events."""
        facts: Attributes = {
            "postern.sink.id": str(sink.id),
            "postern.sink.kind": str(sink.kind),
            "postern.events": len(deliveries),
        }
        with within(self._tracer.start("sink.deliver", SpanKind.CLIENT, facts)):
            outcome = "failed"
            try:
                await self._by_kind[sink.kind].send(sink, deliveries, now)
                outcome = "delivered"
            finally:
                self._count("postern_sink_deliveries", str(sink.kind), outcome, by=len(deliveries))

    async def close(self) -> None:
        await self._receivers.close()
