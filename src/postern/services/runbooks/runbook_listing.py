"""Lists of runbooks: those that a user can run on a connection that they can see."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from postern.domain.identity.principal import Principal
from postern.errors import NotFound
from postern.services.rules.access_control import AccessControl
from postern.services.runbooks.allowed import Allowed, RunbookRights
from postern.services.runbooks.library import NO_REPOSITORY, RunbookLibrary, Shelf
from postern.services.runbooks.parsed import Runbook
from postern.store.ports.target_ports import ConnectionStore


@dataclass(frozen=True, slots=True)
class RunbookEntry:
    """A runbook and the names of the connections on which it can run, in order."""

    runbook: Runbook
    connections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RunbookPart:
    """Adjacent runbooks that can run on the same connections."""

    runbooks: Sequence[Runbook]
    connections: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedShelf:
    """A repository as a user sees it, by path; empty where it was never read."""

    shelf: Shelf
    parts: list[RunbookPart]


class Listing:
    def __init__(
        self, library: RunbookLibrary, connections: ConnectionStore, control: AccessControl, rights: RunbookRights
    ) -> None:
        self._library = library
        self._connections = connections
        self._control = control
        self._rights = rights

    async def find(
        self,
        principal: Principal,
        connection: str | None = None,
        search: str | None = None,
        *,
        with_empty: bool = False,
    ) -> list[ListedShelf]:
        """Return repositories by name.

        `connection`, a name or an identifier: only what can run there, which is nothing where it is hidden from them.
        `search`: only runbooks with this text in their path, ignoring case. `with_empty`: also what they can run
        nowhere. Raises NotFound where no repository is configured, Unavailable when the store does not answer.
        """
        shelves = await self._library.shelves(principal.org_id)
        if not shelves:
            raise NotFound(NO_REPOSITORY)
        places = await self._places(principal, connection)
        listed = []
        for shelf in shelves:
            parts = list(places.parts(shelf, with_empty=with_empty))
            listed.append(ListedShelf(shelf, parts if search is None else _matching_parts(parts, search.lower())))
            await asyncio.sleep(0)  # other tasks run between two of them
        return listed

    async def get(self, principal: Principal, repository: str, file: str) -> RunbookEntry:
        """Return a runbook. Raises NotFound, also for one that they can run nowhere; Invalid and Unavailable as the
        library."""
        hidden = f"there is no runbook {file!r} that you can run; list them: postern runbooks list"
        try:
            runbook = await self._library.find(principal.org_id, repository, file)
        except NotFound as error:
            raise (error if principal.is_admin else NotFound(hidden)) from None
        names = (await self._places(principal, None)).of(runbook.repository, runbook.path)
        if not names and not principal.is_admin:
            raise NotFound(hidden)
        return RunbookEntry(runbook, names)

    async def _places(self, principal: Principal, connection: str | None) -> _Places:
        reach = await self._control.reach(principal)
        there = await self._connections.for_runbooks(principal.org_id, reach, connection)
        return _Places(there, await self._rights.of(principal))


def _matching_parts(parts: Sequence[RunbookPart], text: str) -> list[RunbookPart]:
    """Return the runbooks whose path, as it is shown, contains this text, which is in lower case."""
    matching = [
        replace(part, runbooks=[runbook for runbook in part.runbooks if text in f"/{runbook.path}".lower()])
        for part in parts
    ]
    return [part for part in matching if part.runbooks]


class _Places:
    """Where a user can run what. The names for each set of connections are looked up once."""

    def __init__(self, there: Mapping[UUID, str], allowed: Allowed) -> None:
        self._there = there
        self._allowed = allowed
        self._everywhere = tuple(there.values())
        self._known: dict[frozenset[UUID], tuple[str, ...]] = {}

    def of(self, repository: str, file: str) -> tuple[str, ...]:
        return self._names(self._allowed.where(repository, file))

    def parts(self, shelf: Shelf, *, with_empty: bool) -> Iterator[RunbookPart]:
        if shelf.books is None:
            return
        paths, runbooks = list(shelf.books.runbooks), list(shelf.books.runbooks.values())
        for first, last, connections in self._allowed.spans(shelf.outline.name, paths):
            names = self._names(connections)
            if names or with_empty:
                yield RunbookPart(runbooks[first:last], names)

    def _names(self, connections: frozenset[UUID] | None) -> tuple[str, ...]:
        if connections is None:
            return self._everywhere
        names = self._known.get(connections)
        if names is None:
            names = self._known[connections] = tuple(name for key, name in self._there.items() if key in connections)
        return names
