"""A Segment: one file of a session's recording, sealed and stored, and the chain that binds it to those before it.

    c(0) = SHA-256("postern recording" ‖ organisation ‖ session)
    c(n) = SHA-256(c(n-1) ‖ n ‖ size ‖ digest)              n and size as 8 bytes, big-endian

`digest` is the SHA-256 of the segment's bytes as they were written, so a copy proves itself however it is compressed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Segment:
    """`place` is its key in the blob store. Times are milliseconds since the session's start. `is_last`: its last
    record ends the recording. `damage` is empty, or says what of it could not be read when it was stored. `data_key`
    is the one that its blob is encrypted by, None before it is stored."""

    session_id: UUID
    org_id: UUID
    number: int  # from 1
    digest: bytes
    chain: bytes
    size: int  # bytes, as written
    stored_size: int  # bytes, compressed and encrypted
    begins: int
    ends: int
    operations: int
    is_last: bool
    place: str
    stored_at: datetime
    damage: str = ""
    refused: int = 0
    data_key: UUID | None = None


def key_of(org_id: UUID, session_id: UUID, number: int, started_at: datetime) -> str:
    """Where the segment lies in the blob store; the day is that of the session's start."""
    return f"{org_id}/{started_at:%Y/%m/%d}/{session_id}/{number:06}.rec.zst"


def first_link(org_id: UUID, session_id: UUID) -> bytes:
    """c(0)"""
    return hashlib.sha256(b"postern recording" + org_id.bytes + session_id.bytes).digest()


def next_link(before: bytes, number: int, size: int, digest: bytes) -> bytes:
    """c(n)"""
    return hashlib.sha256(before + number.to_bytes(8, "big") + size.to_bytes(8, "big") + digest).digest()
