"""An anchor that is a webhook: each checkpoint is POSTed to it, signed as Standard Webhooks define.

Headers: `webhook-id` (the same at every attempt), `webhook-timestamp` (seconds since 1970) and `webhook-signature`:
"v1," and the base64 of the HMAC-SHA-256, by the shared secret, over id, timestamp and body, joined with dots.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable
from datetime import datetime
from urllib.parse import urlsplit

import httpx

from postern.domain.secret import Secret
from postern.domain.sessions.ledger import Checkpoint
from postern.errors import Misconfigured, Unavailable

_DEADLINE = 10.0  # seconds
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class WebhookAnchor:
    name = "webhook"

    def __init__(self, url: str, secret: Secret, now: Callable[[], datetime]) -> None:
        """Raises Misconfigured."""
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise Misconfigured("POSTERN_ANCHOR_WEBHOOK: must be an https address", field="anchor_webhook")
        if not secret:
            raise Misconfigured(
                "POSTERN_ANCHOR_WEBHOOK_SECRET is not set: without it the receiver could not verify checkpoints",
                field="anchor_webhook_secret",
            )
        self._url = url
        self._host = parts.hostname
        self._secret = secret
        self._now = now

    async def put(self, checkpoint: Checkpoint, line: bytes) -> None:
        """Send a checkpoint; it is stored once the receiver answers with success. Raises Unavailable."""
        key = f"checkpoint-{checkpoint.org_id}-{checkpoint.number}"
        stamp = str(int(self._now().timestamp()))
        headers = {
            "Content-Type": "application/json",
            "webhook-id": key,
            "webhook-timestamp": stamp,
            "webhook-signature": signature(self._secret, key, stamp, line),
        }
        try:
            async with httpx.AsyncClient(timeout=_DEADLINE, trust_env=False) as client:
                answer = await client.post(self._url, content=line, headers=headers, follow_redirects=False)
        except (httpx.HTTPError, OSError) as error:
            why = str(error) or type(error).__name__
            raise Unavailable(f"the webhook at {self._host} cannot be reached: {why}") from None
        if not answer.is_success:
            raise Unavailable(f"the webhook at {self._host} answered {answer.status_code}")


def signature(secret: Secret, key: str, stamp: str, body: bytes) -> str:
    signed = f"{key}.{stamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.digest(secret.reveal().encode(), signed, hashlib.sha256)).decode()
