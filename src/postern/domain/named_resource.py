"""What all named resources have in common: rules, keys, machines, sinks, templates and the like."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol
from uuid import UUID


class NamedResource(Protocol):
    """`version` counts its changes: a writer says which version they have read. `managed_by` names the configuration
    that it comes from (`postern apply`), or the agent that declares it; None: it is managed by hand."""

    @property
    def id(self) -> UUID: ...
    @property
    def org_id(self) -> UUID: ...
    @property
    def name(self) -> str: ...
    @property
    def created_at(self) -> datetime | None: ...
    @property
    def version(self) -> int: ...
    @property
    def managed_by(self) -> str | None: ...


BY_AGENT = "agent:"  # before the name of the agent that declares a connection


def is_declared(managed_by: str | None) -> bool:
    """Return whether an agent declares it; then nothing else can change it."""
    return managed_by is not None and managed_by.startswith(BY_AGENT)


def plural(noun: str) -> str:
    """Return the plural of a noun: rules, keys, authorities."""
    ends_in_consonant_and_y = noun.endswith("y") and noun[-2] not in "aeiou"
    return f"{noun[:-1]}ies" if ends_in_consonant_and_y else f"{noun}s"
