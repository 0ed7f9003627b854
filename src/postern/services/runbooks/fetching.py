"""How repositories of runbooks are read and written: a port, so that nothing here knows git."""

from __future__ import annotations

from typing import Protocol

from postern.domain.runbook import Repository, Snapshot


class RepositoryFetcher(Protocol):
    """Every call takes a bounded time. Messages of errors are for people: no secret is in them, no control character,
    and nothing that a remote said but what is quoted as its words."""

    async def check(self, repository: Repository) -> None:
        """Whether its address, key and host keys can be right at all; nothing is asked of the network. Raises Invalid,
        with the field."""

    async def fetch(self, repository: Repository) -> Snapshot:
        """Raises Unavailable when it cannot be reached or refuses; Invalid when its settings or what is in it are not
        taken."""

    async def write(
        self, repository: Repository, path: str, content: str, message: str, author: str, *, overwrite: bool
    ) -> str:
        """One commit on top of the branch, by `author` ("Name <address>"), and its id; the branch's head as it is when
        the file says just that already. Raises Conflict when the file is there and is not to be overwritten, or
        somebody else wrote meanwhile; Invalid, Unavailable."""
