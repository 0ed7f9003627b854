"""The tables. `metadata` knows them all once this package is imported."""

from postern.store.schema import (
    identity_tables,
    issue_tables,
    recording_tables,
    retention_tables,
    review_tables,
    runbook_tables,
    server_tables,
    session_tables,
    ssh_tables,
    target_tables,
)
from postern.store.schema.columns import metadata

__all__ = [
    "identity_tables",
    "issue_tables",
    "metadata",
    "recording_tables",
    "retention_tables",
    "review_tables",
    "runbook_tables",
    "server_tables",
    "session_tables",
    "ssh_tables",
    "target_tables",
]
