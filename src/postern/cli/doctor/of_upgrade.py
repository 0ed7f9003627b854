"""Checks before an upgrade: whether this version can open the store, and whether there is a way back."""

from __future__ import annotations

import difflib
import shutil
from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import make_url

from postern import __version__
from postern.cli.doctor.finding import Check, DoctorFinding, ok, warning, wrong
from postern.settings import AgentSettings, Settings
from postern.wiring.host import checks as host_checks
from postern.wiring.host import upgrade as wiring

_RECENT = timedelta(hours=24)
_COPIES = 2  # of the store, which a migration of SQLite can need
# Variables of the command line, and of processes that Postern starts.
_OTHERS = {"CONFIG", "PROFILE", "TOKEN", "API_URL", "SOFT_DESCRIPTORS", "READY_FD", "PARENT_PID"}
_BACK_UP = "with the version that the gateway runs: postern backup FILE --keys KEYFILE"


def checks(settings: Settings, environ: Mapping[str, str]) -> dict[str, Check]:
    """Raises Unavailable if the store does not answer."""
    facts = wiring.read_store(settings)
    return {
        "version": lambda: _version(facts),
        "schema": lambda: _schema(facts),
        "rollback": lambda: _rollback(facts),
        "backup": lambda: _backup(facts),
        "settings": lambda: _settings(settings, environ),
        "disk": lambda: _disk(settings, facts),
        "gateway": lambda: _running(settings),
    }


def _version(facts: wiring.StoreFacts | None) -> list[DoctorFinding]:
    if facts is None:
        return ok("version", f"{__version__} is installed; there is no store yet")
    return ok("version", f"{__version__} is installed; {facts.version or 'an unknown version'} opened the store last")


def _schema(facts: wiring.StoreFacts | None) -> list[DoctorFinding]:
    if facts is None or facts.is_current:
        return ok("schema", "nothing has to be migrated")
    if facts.is_known:
        return ok("schema", f"the next start migrates it from version {facts.schema}")
    return wrong(
        "schema",
        f"the store has the schema {facts.schema}, which this version does not know",
        "a newer version of Postern has migrated it, so this one cannot start",
        "install that version again, or restore a backup from before: postern restore FILE --home FOLDER",
    )


def _rollback(facts: wiring.StoreFacts | None) -> list[DoctorFinding]:
    if facts is None or facts.is_current:
        return ok("rollback", "install the previous version again; the schema does not change")
    return warning(
        "rollback",
        "the previous version cannot open the store after the migration",
        "the way back is a restore, which loses what happens after the backup",
        _BACK_UP,
    )


def _backup(facts: wiring.StoreFacts | None) -> list[DoctorFinding]:
    if facts is None:
        return ok("backup", "there is nothing to back up yet")
    if facts.backup_at is None:
        return warning("backup", "there is no backup by `postern backup`", "it is the way back", _BACK_UP)
    age = datetime.now(UTC) - facts.backup_at
    what = f"the last one was taken at {facts.backup_at:%Y-%m-%d %H:%M} UTC"
    if age > _RECENT:
        return warning("backup", what, "what happened since then would be lost in a restore", _BACK_UP)
    return ok("backup", what)


def _settings(settings: Settings, environ: Mapping[str, str]) -> list[DoctorFinding]:
    known = {field.name.upper() for kind in (Settings, AgentSettings) for field in fields(kind)} | _OTHERS
    known |= {name.removeprefix("POSTERN_") for name in settings.master_key_variables}
    given = {name.removeprefix("POSTERN_") for name in environ if name.startswith("POSTERN_")}
    findings = []
    for name in sorted(given - known):
        near = difflib.get_close_matches(name, known, 1)
        do = f"did you mean POSTERN_{near[0]}?" if near else "remove it; docs/operations.md lists all settings"
        findings += warning("settings", f"POSTERN_{name} is not a setting of this version", "it has no effect", do)
    return findings or ok("settings", "all variables that begin with POSTERN_ are known")


def _disk(settings: Settings, facts: wiring.StoreFacts | None) -> list[DoctorFinding]:
    file = _sqlite_file(settings)
    if facts is None or facts.is_current:
        return ok("disk", "no migration, so no space is needed")
    if file is None:
        return ok("disk", "the migration needs space at the database server, which is not checked here")
    needed, free = _COPIES * file.stat().st_size, shutil.disk_usage(file.parent).free
    what = f"the migration needs up to {needed >> 20} MiB, and {free >> 20} MiB are free in {file.parent}"
    if needed > free:
        return wrong("disk", what, "the migration would fail, and the gateway not start", "free some space")
    return ok("disk", what)


def _sqlite_file(settings: Settings) -> Path | None:
    url = make_url(settings.url)
    return Path(url.database) if url.get_backend_name() == "sqlite" and url.database else None


def _running(settings: Settings) -> list[DoctorFinding]:
    if host_checks.is_running(settings):
        return ok("gateway", "it runs; stop it before you start the new version, which ends its sessions")
    return ok("gateway", "it does not run")
