"""The master key of this gateway: a file, an environment variable, or a key in AWS KMS."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from postern.errors import Misconfigured
from postern.settings import Settings
from postern.store.database import Database
from postern.store.encryption import Encryption, LocalMaster, environment_key, file_key, make_file_key
from postern.store.ports.keys import MasterKey
from postern.store.sql.sql_data_keys import SqlDataKeys
from postern.wiring import paths

_MAX_ID = 255  # characters; the size of the column with the master key of a data key


def open_encryption(settings: Settings, database: Database) -> Encryption:
    """Raises Misconfigured."""
    keys = [master_of(settings.master_key_old, "master_key_old")] if settings.master_key_old else []
    return Encryption(SqlDataKeys(database), master(settings), old=keys, direct=direct_key(settings))


def master(settings: Settings) -> MasterKey:
    """Return the master key in force. The file in the data folder is created at the first start; all others
    must exist."""
    if settings.master_key:
        return master_of(settings.master_key)
    path = paths.encryption_key(settings)
    make_file_key(path)
    return LocalMaster(file_key(path))


def export_master(settings: Settings) -> bytes:
    """Return the bytes of the master key in force. Raises Misconfigured, also for one that is in a KMS."""
    kind, _, where = settings.master_key.partition(":")
    if kind == "aws-kms":
        raise Misconfigured(
            f"the master key is {settings.master_key}, which never leaves AWS KMS, so there is nothing to export: back "
            "up without --keys, and keep that key",
            field="master_key",
        )
    if not settings.master_key:
        return file_key(paths.encryption_key(settings))
    master_of(settings.master_key)  # checks the setting, and reads a variable
    return _taken[where] if kind == "env" else file_key(Path(where).expanduser())


def direct_key(settings: Settings) -> bytes | None:
    """Return the key that encrypted values directly in earlier versions; None if there is no such file."""
    path = paths.encryption_key(settings)
    return file_key(path) if path.exists() else None


def master_of(place: str, field: str = "master_key") -> MasterKey:
    """Open `file:PATH`, `env:NAME` or `aws-kms:KEY_ARN`. Raises Misconfigured, without repeating text that can be a
    key."""
    kind, _, where = place.partition(":")
    make = _KINDS.get(kind)
    if make is None or not where or len(place) > _MAX_ID:
        raise Misconfigured(
            f"POSTERN_{field.upper()}: write the master key's location as file:PATH, env:NAME or aws-kms:KEY_ARN",
            field=field,
        )
    return make(where)


def _file(where: str) -> MasterKey:
    return LocalMaster(file_key(Path(where).expanduser()))


def _environment(where: str) -> MasterKey:
    # Several callers in a process can ask; the variable itself is removed after the first.
    if where not in _taken:
        _taken[where] = environment_key(os.environ, where)
    return LocalMaster(_taken[where])


def _kms(where: str) -> MasterKey:
    try:
        from postern.integrations.kms_aws import KmsMaster
    except ImportError:
        raise Misconfigured("a master key in AWS KMS needs boto3; run: pip install boto3") from None
    return KmsMaster(where)


_taken: dict[str, bytes] = {}
_KINDS: dict[str, Callable[[str], MasterKey]] = {"file": _file, "env": _environment, "aws-kms": _kms}
