"""Webhooks, signed as github.com/standard-webhooks/standard-webhooks has it in spec/standard-webhooks.md."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from postern.domain.secret import Secret
from postern.domain.sink import Delivery, Sink
from postern.integrations.sinks.receivers import Receivers

_PREFIX = "whsec_"


class WebhookSender:
    def __init__(self, receivers: Receivers) -> None:
        self._receivers = receivers

    async def send(self, sink: Sink, deliveries: Sequence[Delivery], now: datetime) -> None:
        """One after the other."""
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
    """`stamp` in seconds since 1970."""
    key = base64.b64decode(secret.reveal().removeprefix(_PREFIX))
    signed = hmac.new(key, f"{event_id}.{stamp}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(signed.digest()).decode()
