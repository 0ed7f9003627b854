"""`postern upgrade check`: whether this version can open the store, and whether there is a way back."""

from __future__ import annotations

import asyncio
import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from postern import __version__
from postern.cli.main import cli
from postern.settings import Settings
from postern.store.database import Database
from postern.store.sql.sql_installation import BACKUP, VERSION, SqlInstallation


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, database_url=database_url)


def check(settings: Settings, **environment: str) -> tuple[int, dict[str, dict[str, str]]]:
    variables = {"POSTERN_HOME": str(settings.home), "POSTERN_DATABASE_URL": settings.database_url, **environment}
    done = CliRunner().invoke(cli, ["upgrade", "check", "--json"], env=variables)
    return done.exit_code, {found["check"]: found for found in json.loads(done.stdout)}


def change(settings: Settings, statement: str = "", **facts: str) -> None:
    async def work() -> None:
        database = Database(settings.url)
        for name, value in facts.items():
            await SqlInstallation(database).put(name, value, datetime.now(UTC))
        if statement:
            async with database.statement() as connection:
                await connection.execute(text(statement))
        await database.close()

    asyncio.run(work())


def test_store_of_this_version_can_be_opened_and_left(settings: Settings) -> None:
    change(settings, **{VERSION: "0.0.9", BACKUP: datetime.now(UTC).isoformat()})
    code, found = check(settings)
    assert code == 0
    assert {one["state"] for one in found.values()} == {"ok"}
    assert found["version"]["what"] == f"{__version__} is installed; 0.0.9 opened the store last"
    assert "the schema does not change" in found["rollback"]["what"]


def test_store_that_must_be_migrated_has_no_way_back_but_a_backup(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("postern.store.migration_files.newest", lambda: frozenset({"2"}))
    code, found = check(settings)
    assert code == 0
    assert "migrates it from version 1" in found["schema"]["what"]
    assert found["rollback"]["state"] == "warning"
    assert found["disk"]["state"] == "ok"
    assert "postern backup" in found["backup"]["do"]


def test_store_of_a_newer_version_cannot_be_opened(settings: Settings) -> None:
    change(settings, "update alembic_version set version_num = '99'")
    code, found = check(settings)
    assert code == 1
    assert found["schema"]["state"] == "wrong"
    assert "99" in found["schema"]["what"]


def test_migration_without_space_is_not_begun(sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("postern.store.migration_files.newest", lambda: frozenset({"2"}))
    usage: Any = type(shutil.disk_usage("/"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**12, 10**12, 1000))
    code, found = check(Settings(home=tmp_path, database_url=sqlite_url))
    assert (code, found["disk"]["state"]) == (1, "wrong")


def test_old_backup_is_a_warning(settings: Settings) -> None:
    change(settings, **{BACKUP: (datetime.now(UTC) - timedelta(days=2)).isoformat()})
    code, found = check(settings)
    assert (code, found["backup"]["state"]) == (0, "warning")


def test_unknown_setting_is_named_with_the_nearest(settings: Settings) -> None:
    code, found = check(settings, POSTERN_WORKER="4", POSTERN_TOKEN="x")
    assert code == 0
    assert "POSTERN_WORKER is not a setting" in found["settings"]["what"]
    assert found["settings"]["do"] == "did you mean POSTERN_WORKERS?"


def test_folder_without_a_store_needs_nothing(tmp_path: Path) -> None:
    code, found = check(Settings(home=tmp_path))
    assert (code, {one["state"] for one in found.values()}) == (0, {"ok"})
    assert not (tmp_path / "postern.db").exists()


def test_gateway_records_the_version_that_opened_the_store(migrated: Path, tmp_path: Path) -> None:
    from postern.wiring.processes import prepare

    settings = Settings(home=tmp_path / "home", demo=False)
    prepare.run(settings)
    _, found = check(settings)
    assert found["version"]["what"] == f"{__version__} is installed; {__version__} opened the store last"
