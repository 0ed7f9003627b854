"""Filled stores to begin with: making people and logging them in takes longer than most tests."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.support.world import World

from postern.store.database import Database

T = TypeVar("T")


@dataclass(frozen=True)
class _Template:
    """A store's file, the key that its secrets are sealed with, and what `fill` returned."""

    file: Path
    master: bytes
    made: Any


_templates: dict[Callable[..., Any], _Template] = {}
_folder = tempfile.TemporaryDirectory(prefix="postern-templates-")


async def filled_world(database: Database, fill: Callable[[World], Awaitable[T]]) -> tuple[World, T]:
    """Return a world whose store `fill` has filled, and what it returned. An empty store on SQLite that nobody has
    opened becomes a copy of the one that was filled first."""
    file = database.engine.sync_engine.url.database if database.is_sqlite else None
    if file is None or not _is_fresh(file):
        world = await World.make(database)
        return world, await fill(world)
    if fill in _templates:
        template = _templates[fill]
        shutil.copyfile(template.file, file)
        return await World.make(database, template.master), template.made
    world = await World.make(database)
    made = await fill(world)
    template = _Template(Path(_folder.name) / str(len(_templates)), world.master, made)
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(template.file)) as target:
        source.backup(target)
    _templates[fill] = template
    return world, made


def _is_fresh(file: str) -> bool:
    """Whether the store is empty, and no connection has it open."""
    if Path(f"{file}-wal").exists():
        return False
    with closing(sqlite3.connect(f"file:{file}?immutable=1", uri=True)) as connection:
        return connection.execute("select 1 from users").fetchone() is None
