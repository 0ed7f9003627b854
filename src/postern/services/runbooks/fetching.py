"""The port to repositories of runbooks, so that services do not know git."""

from __future__ import annotations

from typing import Protocol

from postern.domain.runbook import Repository, Snapshot


class RepositoryFetcher(Protocol):
    """Reads and writes repositories, each call in a bounded time.

    Error messages are for users: without secrets and control characters, and with a remote's text only as a quotation.
    """

    async def check(self, repository: Repository) -> None:
        """Check the address, key and host keys, without network access. Raises Invalid, with the field."""

    async def fetch(self, repository: Repository) -> Snapshot:
        """Fetch the newest commit. Raises Unavailable when it cannot be reached or denies access; Invalid when its
        settings or content are not accepted."""

    async def write(
        self, repository: Repository, path: str, content: str, message: str, author: str, *, overwrite: bool
    ) -> str:
        """Commit one file on top of the branch, by `author` ("Name <address>"), and return the commit's id.

        If the file already has that content, return the branch's head. Raises Conflict when the file exists and
        `overwrite` is not set, or another push came first; Invalid, Unavailable.
        """
