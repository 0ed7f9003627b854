"""Where things lie in the data folder; the list for people is in docs/operations.md."""

from __future__ import annotations

from pathlib import Path

from postern.settings import Settings


def signals_socket(settings: Settings) -> Path:
    return settings.home / "run" / "signals.sock"


def first_run_file(settings: Settings) -> Path:
    return settings.home / "first-run.json"


def gateway_id(settings: Settings) -> Path:
    """Which gateway this data folder is: others must not use its store."""
    return settings.home / "gateway-id"


def lock(settings: Settings) -> Path:
    return settings.home / "run" / "lock"


def archivist_beat(home: Path) -> Path:
    """Touched every few seconds while the archivist lives."""
    return home / "run" / "archivist"


def api_url(settings: Settings) -> Path:
    """Where the API of the last start is, for commands on this machine while the port is one that was picked."""
    return settings.home / "run" / "api-url"


def store(settings: Settings) -> Path:
    """Not there with `POSTERN_DATABASE_URL`."""
    return settings.home / "postern.db"


def logs_folder(settings: Settings) -> Path:
    return settings.home / "logs"


def certificates_folder(settings: Settings) -> Path:
    return settings.home / "tls"


def encryption_key(settings: Settings) -> Path:
    return settings.home / "keys" / "encryption.key"
