"""The exchange of recorded output."""

from __future__ import annotations


def exchange_of(output: bytes) -> int:
    """Return the exchange that an output of one link belongs to; 0 if it has no frame."""
    return int.from_bytes(output[1:5], "big")
