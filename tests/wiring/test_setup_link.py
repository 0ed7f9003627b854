"""A set-up link made on the gateway's machine, by the command that people type."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest
from click.testing import CliRunner
from tests.support.world import CLIENT

from postern.cli.main import cli
from postern.domain.identity.second_factor import FactorKind, SecondFactor
from postern.domain.secret import Secret
from postern.errors import Denied, NotFound
from postern.services.identity.logins.local_login import SecondStep
from postern.services.identity.logins.logins import OpenedLogin
from postern.settings import Settings
from postern.store.signals import LocalSignals
from postern.wiring import paths
from postern.wiring.app import open_app
from postern.wiring.host import setup_link as wiring
from postern.wiring.processes import prepare

NEW = Secret("another long password")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    settings = Settings(home=home, api_port=2222, demo=False)
    prepare.run(settings)
    return settings


async def test_the_link_sets_the_first_admin_s_password(settings: Settings) -> None:
    older = await wiring._make(settings, "admin@localhost", None)
    link = await wiring._make(settings, "admin@localhost", "default")
    assert link.url.reveal() == f"http://localhost:2222/setup#token={link.token.reveal()}"
    async with open_app(settings, LocalSignals()) as app:
        with pytest.raises(Exception, match="already used"):
            await app.services.local_login.set_up(older.token, NEW, None, CLIENT)
        opened = await app.services.local_login.set_up(link.token, NEW, None, CLIENT)
        assert isinstance(opened, OpenedLogin)
        assert (await app.services.authentication.caller(opened.token, address="::1")).principal.is_admin


async def test_whoever_runs_the_machine_can_reset_second_factors(settings: Settings) -> None:
    async with open_app(settings, LocalSignals()) as app:
        org_id = (await app.stores.organisations.default()).id
        admin = await app.stores.principals.by_email(org_id, "admin@localhost")
        assert admin is not None
        now = app.services.now()
        factor = SecondFactor(uuid4(), admin.principal.id, FactorKind.TOTP, "lost", b"A" * 32, now, confirmed_at=now)
        await app.stores.second_factors.add(factor)
        link = await wiring._make(settings, "admin@localhost", None)
        assert isinstance(await app.services.local_login.set_up(link.token, NEW, None, CLIENT), SecondStep)
        link = await wiring._make(settings, "admin@localhost", None, reset=True)
        assert isinstance(await app.services.local_login.set_up(link.token, NEW, None, CLIENT), OpenedLogin)


def test_the_command_prints_it(settings: Settings) -> None:
    arguments = ["--home", str(settings.home), "--json"]
    result = CliRunner().invoke(cli, ["setup-link", *arguments], env={"POSTERN_API_PORT": "2222"})
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    assert shown["email"] == "admin@localhost"
    assert shown["url"].endswith(shown["token"])
    text = CliRunner().invoke(cli, ["setup-link", *arguments[:2]], env={"POSTERN_API_PORT": "0"})
    assert "postern setup 'http://localhost:2222/setup#token=" in text.output  # the port is that of the last start


def test_it_needs_nothing_of_the_file_that_people_are_told_to_remove(settings: Settings) -> None:
    paths.first_run_file(settings).unlink()
    for port in ("2222", "0"):
        made = CliRunner().invoke(
            cli, ["setup-link", "--home", str(settings.home), "--json"], env={"POSTERN_API_PORT": port}
        )
        assert made.exit_code == 0, made.output
        assert json.loads(made.stdout)["url"].startswith("http://localhost:2222/setup#token=")
    assert not paths.first_run_file(settings).exists()
    paths.api_url(settings).unlink()
    with pytest.raises(NotFound, match="has not run yet"):
        wiring.make(replace(settings, api_port=0), None, None)


async def test_who_is_not_there_gets_none(settings: Settings) -> None:
    with pytest.raises(NotFound, match="no user"):
        await wiring._make(settings, "nobody@example.com", None)
    with pytest.raises(NotFound, match="no organisation"):
        await wiring._make(settings, "admin@localhost", "elsewhere")


def test_nothing_is_made_in_a_folder_that_is_no_gateway_s(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for home in (empty, tmp_path / "nowhere"):
        with pytest.raises(NotFound, match="no gateway"):
            wiring.make(replace(settings, home=home), None, None)
        assert not home.exists() or not list(home.iterdir())
    monkeypatch.setattr("postern.wiring.host.host_folder.os.geteuid", lambda: settings.home.stat().st_uid + 1)
    with pytest.raises(Denied, match="a different user"):
        wiring.make(settings, None, None)
