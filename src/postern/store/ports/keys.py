"""The ports of encryption at rest: a master key, and the table of data keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


class MasterKey(Protocol):
    """Wraps data keys. It is never in the store, and its methods may block: call them from a thread.

    Raises Misconfigured when it is not the key that wrapped, or its use is denied; Unavailable when an external key
    service does not answer.
    """

    @property
    def id(self) -> str:
        """The key's public name; at most 255 characters, the same wherever the key is used."""

    def wrap(self, key: bytes, context: str) -> bytes:
        """Wrap a key. `context` says what it is for; it can only be unwrapped under the same one."""

    def unwrap(self, wrapped: bytes, context: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class DataKey:
    """A row of `data_keys`. `org_id` is None for the server's own; a retired key opens what it sealed, and no longer
    seals."""

    id: UUID
    org_id: UUID | None
    wrapped: bytes
    master: str
    created_at: datetime
    retired_at: datetime | None = None

    @property
    def context(self) -> str:
        """The context to which its wrapping is bound."""
        return f"data_keys/{self.id}/{self.org_id or 'server'}"


class SegmentKeys(Protocol):
    """Keys of segments in the blob store, each derived from a data key of its organisation."""

    async def in_use(self, org_id: UUID) -> UUID:
        """Return the data key from which new ones are derived. Raises Misconfigured, Unavailable."""

    def derive(self, data_key: UUID, org_id: UUID, *, salt: bytes, info: bytes) -> bytes:
        """Return 32 bytes (HKDF-SHA-256). Blocks: call it from a thread.

        Raises Malformed when there is no such data key, or it is another organisation's; Misconfigured, Unavailable.
        """


class DataKeyStore(Protocol):
    async def all(self) -> Sequence[DataKey]:
        """Return keys, oldest first. One statement."""

    async def add_first(self, key: DataKey) -> bool:
        """Add a key; False when that organisation has one in use already, from another process."""

    async def renew(self, key: DataKey) -> None:
        """Retire the organisation's key in use, and add this one."""

    async def rewrap(self, keys: Sequence[DataKey], known_masters: Mapping[UUID, str]) -> int:
        """Replace wrapping and master of those that are still wrapped by the given master; return how many."""
