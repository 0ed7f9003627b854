"""Paths in the data folder; docs/operations.md has the list for people."""

from __future__ import annotations

from pathlib import Path

from postern.settings import Settings


def signals_socket(settings: Settings) -> Path:
    return settings.home / "run" / "signals.sock"


def first_run_file(settings: Settings) -> Path:
    return settings.home / "first-run.json"


def gateway_id(settings: Settings) -> Path:
    """Return the file with the id of this data folder: other gateways must not use its store."""
    return settings.home / "gateway-id"


def restoring(settings: Settings) -> Path:
    """Return the folder that is there while a backup is restored, and stays if that is interrupted."""
    return settings.home / ".restoring"


def lock(settings: Settings) -> Path:
    return settings.home / "run" / "lock"


def archiver_beat(home: Path) -> Path:
    """Return the file that the archiver touches every few seconds."""
    return home / "run" / "archiver"


def api_url(settings: Settings) -> Path:
    """Return the file with the API's address of the last start, for commands on this machine while the port is chosen
    by the gateway."""
    return settings.home / "run" / "api-url"


def store(settings: Settings) -> Path:
    """Return the SQLite file, which does not exist with `POSTERN_DATABASE_URL`."""
    return settings.home / "postern.db"


def logs_folder(settings: Settings) -> Path:
    return settings.home / "logs"


def certificates_folder(settings: Settings) -> Path:
    return settings.home / "tls"


def acme_folder(settings: Settings) -> Path:
    """Return the folder of the ACME account's key, and of the certificate that the ACME server issued."""
    return settings.home / "tls" / "acme"


def acme_challenges(home: Path) -> Path:
    """Return the folder with the answers to challenges of the ACME server, while it asks."""
    return home / "run" / "acme"


def acme_state(home: Path) -> Path:
    """Return the file that says what became of the last orders at the ACME server."""
    return home / "run" / "acme-state.json"


def encryption_key(settings: Settings) -> Path:
    return settings.home / "keys" / "encryption.key"
