"""Identifiers of what is stored."""

from __future__ import annotations

from uuid import UUID


def is_identifier(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
