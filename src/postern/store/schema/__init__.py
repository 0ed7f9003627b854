"""The tables. `metadata` knows them all once this package is imported."""

from postern.store.schema import (
    issues,
    people,
    recordings,
    retention,
    reviews,
    runbooks,
    server,
    sessions,
    ssh,
    targets,
)
from postern.store.schema.base import metadata

__all__ = [
    "issues",
    "metadata",
    "people",
    "recordings",
    "retention",
    "reviews",
    "runbooks",
    "server",
    "sessions",
    "ssh",
    "targets",
]
