"""The versions of the store's schema, and how to migrate to the newest one."""

from __future__ import annotations

import functools

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from postern.errors import Misconfigured
from postern.store import migration_files


def upgrade(connection: Connection) -> None:
    """Raises Misconfigured when the schema has a version that this code does not know."""
    current = MigrationContext.configure(connection).get_current_revision()
    if current is not None and not _is_known(current):
        raise Misconfigured(
            f"the store has the schema {current!r}, which this version of Postern does not know: start the version "
            "that created it, or choose an empty store with --home or POSTERN_DATABASE_URL"
        )
    _upgrade(connection, "head")


def create(connection: Connection, revision: str) -> None:
    """Create the schema of that version in an empty store. Raises Misconfigured when this code does not know it."""
    if not _is_known(revision):
        raise Misconfigured(
            f"the backup has the schema {revision!r}, which this version of Postern does not know: restore it with the "
            "version that wrote it, or a newer one"
        )
    _upgrade(connection, revision)


def _is_known(revision: str) -> bool:
    return revision in {script.revision for script in _script().walk_revisions()}


def _upgrade(connection: Connection, revision: str) -> None:
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(migration_files.FOLDER).replace("%", "%%"))
    return config


@functools.cache
def _script() -> ScriptDirectory:
    """Return the migrations of this version, cached, since they do not change."""
    return ScriptDirectory.from_config(_config())
