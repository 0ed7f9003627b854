"""Runbooks put straight into the store, as if they had been read from git."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from uuid import UUID

from tests.support.runbooks import snapshot_of

from postern.domain.runbook import Repository, repository_id, repository_name
from postern.store.stores import Stores

ADDRESS = "https://git.example.com/team/runbooks.git"
NAME = "git.example.com/team/runbooks"


async def shelve(
    stores: Stores, org_id: UUID, files: Mapping[str, str], *, address: str = ADDRESS, at: datetime | None = None
) -> str:
    """The commit of these files, by their paths: from now on it is the newest of the repository."""
    at = at or datetime.now(UTC)
    found = {one.id: one for one in await stores.runbook_repositories.all(org_id)}.get(repository_id(address))
    if found is None:
        found = Repository(org_id, address, repository_name(address), created_at=at, updated_at=at)
        await stores.runbook_repositories.add(found)
    snapshot = snapshot_of(files)
    assert found.updated_at is not None
    assert await stores.runbook_snapshots.put(org_id, found.id, snapshot, found.updated_at, at)
    return snapshot.commit
