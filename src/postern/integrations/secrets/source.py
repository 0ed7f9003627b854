"""The port of secret sources, and their common limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from postern.domain.secret import Secret
from postern.errors import Unavailable

DEADLINE = 5.0  # seconds, for a whole fetch
LIMIT = 256 * 1024  # bytes of an answer; the largest secret of any of these providers is 64 KiB, except for Vault

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Document:
    """The content under one name: a text, usually a JSON object with one value per key."""

    text: Secret

    def value(self, key: str) -> Secret:
        """Return the value, or everything if `key` is empty. Raises Unavailable with the reason, and nothing of the
        text."""
        if not key:
            return self.text
        fields = _object(self.text.reveal())
        if fields is None:
            raise Unavailable("it is not a JSON object, so it has no keys")
        value = fields.get(key)
        if value is None:
            raise Unavailable(f"it has no key {key!r}")
        return Secret(value if isinstance(value, str) else json.dumps(value))


def _object(text: str) -> dict[str, object] | None:
    # The decoder's error contains the text: it must not become the context of another one.
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


class SecretSource(Protocol):
    async def fetch(self, name: str) -> Document:
        """Fetch a document. Raises Unavailable with the reason: short, without the name, and without any value."""


class Threads:
    """Threads for blocking libraries. A call that hangs is abandoned at the deadline, and occupies one of `most`
    threads until the library's own timeout."""

    def __init__(self, most: int) -> None:
        self._pool = ThreadPoolExecutor(most, thread_name_prefix="secrets")

    async def run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)


def checked_text(content: bytes) -> Secret:
    """Return the text of a secret. Raises Unavailable."""
    if len(content) > LIMIT:
        raise Unavailable(f"it is larger than {LIMIT} bytes")
    text = _decode_utf8(content)
    if text is None:
        raise Unavailable("it is not text in UTF-8")
    return Secret(text)


def _decode_utf8(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
