"""What encryption at rest needs from the outside: a master key, and the table of data keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID


class MasterKey(Protocol):
    """Wraps data keys. It is never in the store, and its methods may block: call them from a thread.

    Raises Misconfigured when it is another key than the one that wrapped, or may not be used; Unavailable when it
    is kept elsewhere and does not answer.
    """

    @property
    def id(self) -> str:
        """Names the key and no secret of it; at most 255 characters, the same wherever the key is used."""

    def wrap(self, key: bytes, context: str) -> bytes:
        """`context` says what the key is for; it opens under no other."""

    def unwrap(self, wrapped: bytes, context: str) -> bytes: ...


@dataclass(frozen=True, slots=True)
class DataKey:
    """A row of `data_keys`. `org_id` is None for the key of what belongs to no organisation; a retired one seals no
    more and opens what it sealed."""

    id: UUID
    org_id: UUID | None
    wrapped: bytes
    master: str
    created_at: datetime
    retired_at: datetime | None = None

    @property
    def context(self) -> str:
        """What its wrapping is bound to."""
        return f"data_keys/{self.id}/{self.org_id or 'server'}"


class SegmentKeys(Protocol):
    """Keys of segments in the blob store, each derived of a data key of its organisation."""

    async def in_use(self, org_id: UUID) -> UUID:
        """The data key of which new ones are derived. Raises Misconfigured, Unavailable."""

    def derive(self, data_key: UUID, org_id: UUID, *, salt: bytes, info: bytes) -> bytes:
        """32 bytes (HKDF-SHA-256). Blocks: call it from a thread. Raises Malformed when there is no such data key, or
        it is another organisation's; Misconfigured, Unavailable."""


class DataKeyStore(Protocol):
    async def all(self) -> Sequence[DataKey]:
        """Oldest first. One statement."""

    async def add_first(self, key: DataKey) -> bool:
        """False when that organisation has one in use already, made by another process."""

    async def renew(self, key: DataKey) -> None:
        """Retires what that organisation uses, and adds this one."""

    async def rewrap(self, keys: Sequence[DataKey], known_masters: Mapping[UUID, str]) -> int:
        """Replaces wrapping and master of those that are still wrapped by the master given for each; how many."""
