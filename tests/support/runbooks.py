"""Repositories that tests make up, and what reads them in the place of git."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.support.promises import PATIENT

from postern.domain.runbook import Repository, RunbookFile, Snapshot
from postern.errors import Conflict, Invalid, PosternError, Unavailable

URL = "https://git.example.com/ops/books.git"
NAME = "git.example.com/ops/books"


def snapshot_of(files: Mapping[str, str], hooks: Mapping[str, str] | None = None) -> Snapshot:
    """Of a commit that is named by what is in it."""
    commit = hashlib.sha1(repr((sorted(files.items()), sorted((hooks or {}).items()))).encode()).hexdigest()
    made = tuple(RunbookFile(path, text) for path, text in files.items())
    return Snapshot(commit, "Ann <ann@example.com>", "Add them", made, hooks or {})


@dataclass
class FakeFetcher:
    """`remotes`: what is there by address, or why it cannot be read. While one is `held`, reading it does not end."""

    remotes: dict[str, Snapshot | PosternError] = field(default_factory=dict)
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    refused: dict[str, Invalid] = field(default_factory=dict)  # by `check`
    asked: list[Repository] = field(default_factory=list)
    written: list[tuple[str, str, str]] = field(default_factory=list)  # path, message, author
    at_once: int = 0
    _asking: asyncio.Condition = field(default_factory=asyncio.Condition)

    def put(self, files: Mapping[str, str], url: str = URL, hooks: Mapping[str, str] | None = None) -> Snapshot:
        made = self.remotes[url] = snapshot_of(files, hooks)
        return made

    async def is_asked(self, often: int) -> None:
        async with asyncio.timeout(PATIENT), self._asking:
            await self._asking.wait_for(lambda: len(self.asked) >= often)

    async def check(self, repository: Repository) -> None:
        if repository.git_url in self.refused:
            raise self.refused[repository.git_url]

    async def fetch(self, repository: Repository) -> Snapshot:
        async with self._asking:
            self.asked.append(repository)
            self._asking.notify_all()
        self.at_once += 1
        try:
            if repository.git_url in self.held:
                await self.held[repository.git_url].wait()
        finally:
            self.at_once -= 1
        found = self.remotes.get(repository.git_url, Unavailable("nothing answers there"))
        if isinstance(found, PosternError):
            raise found
        return found

    async def write(
        self, repository: Repository, path: str, content: str, message: str, author: str, *, overwrite: bool
    ) -> str:
        there = self.remotes[repository.git_url]
        assert isinstance(there, Snapshot)
        files = {one.path: one.text or "" for one in there.files}
        if path in files and not overwrite:
            raise Conflict(f"path: {path} is there already", field="path")
        self.written.append((path, message, author))
        return self.put(files | {path: content}, repository.git_url).commit
