"""Master keys and data keys of a store that lies on disk, as the commands change them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from sqlalchemy import select
from tests.support.kms import kms
from tests.support.promises import until

from postern.cli.main import cli
from postern.domain.lists import Page
from postern.errors import Misconfigured
from postern.settings import Settings
from postern.store.database import Database
from postern.store.ports.keys import DataKey
from postern.store.ports.server_ports import AuditEntry, AuditFilter
from postern.store.schema.server_tables import org_settings
from postern.store.signals import LocalSignals, SignalHub, SocketSignals
from postern.store.sql.sql_data_keys import SqlDataKeys
from postern.wiring import masters_wiring, paths
from postern.wiring.app import now, open_app
from postern.wiring.host import key_commands

PLANTED = "planted secret"


@pytest.fixture
def settings(database_url: str, tmp_path: Path) -> Settings:
    """A gateway's, with one setting that is sealed."""
    made = Settings(home=tmp_path, database_url=database_url)
    asyncio.run(plant(made))
    return made


async def plant(settings: Settings) -> None:
    async with open_app(settings, LocalSignals(), migrate=True) as app:
        org = await app.stores.organisations.default()
        await app.stores.settings.put(org.id, "planted", {"secret": PLANTED}, now())
        await app.encryption.seal(b"x", row="r", org_id=None)


async def planted(settings: Settings) -> Any:
    async with open_app(settings, LocalSignals()) as app:
        org = await app.stores.organisations.default()
        found = await app.stores.settings.get(org.id, "planted")
        return found and found["secret"]


def master_file(folder: Path, name: str = "new.key") -> str:
    return f"file:{folder / name}"


def test_a_rotation_touches_no_value_and_the_old_master_key_opens_nothing_any_more(settings: Settings) -> None:
    before = asyncio.run(sealed_setting(settings))
    to = master_file(settings.home)
    master, done = key_commands.rotate(settings, to)
    assert done == 2
    rotated = replace(settings, master_key=to)
    assert asyncio.run(sealed_setting(settings)) == before
    assert asyncio.run(planted(rotated)) == PLANTED
    assert key_commands.status(rotated).is_rotated
    assert key_commands.status(rotated).master == master
    with pytest.raises(Misconfigured, match="POSTERN_MASTER_KEY"):
        asyncio.run(planted(settings))
    assert key_commands.rotate(rotated, to) == (master, 0)


async def sealed_setting(settings: Settings) -> bytes:
    database = Database(settings.url)
    try:
        async with database.statement() as connection:
            found: bytes = (await connection.execute(select(org_settings.c.value))).scalar_one()
            return found
    finally:
        await database.close()


def test_a_rotation_that_was_cut_off_goes_on_and_both_masters_are_read_until_then(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = master_file(settings.home)
    monkeypatch.setattr(key_commands, "GROUP", 1)
    kept = SqlDataKeys.rewrap
    calls = 0

    async def cut_off(self: SqlDataKeys, *arguments: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        return await kept(self, *arguments)

    monkeypatch.setattr(SqlDataKeys, "rewrap", cut_off)
    with pytest.raises(KeyboardInterrupt):
        key_commands.rotate(settings, to)
    monkeypatch.setattr(SqlDataKeys, "rewrap", kept)
    mixed = {key.master for key in key_commands.status(settings).keys}
    assert len(mixed) == 2
    with pytest.raises(Misconfigured, match="finish `postern keys rotate`"):
        asyncio.run(planted(settings))
    both = replace(settings, master_key=to, master_key_old=f"file:{paths.encryption_key(settings)}")
    assert asyncio.run(planted(both)) == PLANTED
    assert key_commands.rotate(settings, to)[1] == 1
    assert asyncio.run(planted(replace(settings, master_key=to))) == PLANTED


def test_a_gateway_that_made_a_data_key_during_the_rotation_is_seen_to(settings: Settings) -> None:
    to = master_file(settings.home)
    key_commands.rotate(settings, to)
    # A process that still has the old master key, with what it has read before.
    asyncio.run(add_under(settings))
    rotated = replace(settings, master_key=to, master_key_old=f"file:{paths.encryption_key(settings)}")
    assert key_commands.rotate(rotated, to)[1] == 1
    assert key_commands.status(replace(settings, master_key=to)).is_rotated


async def add_under(settings: Settings) -> None:
    database = Database(settings.url)
    try:
        master = masters_wiring.master(settings)
        draft = DataKey(uuid4(), None, b"", master.id, now())
        wrapped = master.wrap(os.urandom(32), draft.context)
        await SqlDataKeys(database).renew(replace(draft, wrapped=wrapped))
    finally:
        await database.close()


def test_attack_054_after_rotation_and_renewal_nothing_is_in_clear_and_old_keys_seal_nothing(
    settings: Settings,
) -> None:
    old = asyncio.run(sealed_setting(settings))
    to = master_file(settings.home)
    key_commands.rotate(settings, to)
    rotated = replace(settings, master_key=to)
    renewed = key_commands.renew(rotated, None)
    assert {one.organisation: one.values for one in renewed} == {"default": 1, None: 0}
    new = asyncio.run(sealed_setting(rotated))
    assert new[:17] != old[:17]
    assert PLANTED.encode() not in new
    assert asyncio.run(planted(rotated)) == PLANTED
    found = key_commands.status(rotated)
    assert [key.values for key in found.keys if key.retired_at] == [0, 0]
    assert sum(key.values for key in found.keys) == 1


def test_a_master_key_of_the_environment_is_used_and_not_passed_on(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"OUR_MASTER_{secrets.token_hex(4).upper()}"
    monkeypatch.setenv(name, base64.b64encode(os.urandom(32)).decode())
    key_commands.rotate(settings, f"env:{name}")
    assert name not in os.environ
    assert asyncio.run(planted(replace(settings, master_key=f"env:{name}"))) == PLANTED


@pytest.fixture
def arn(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with kms(monkeypatch) as key:
        yield key


def test_a_master_key_in_aws_kms(settings: Settings, arn: str) -> None:
    key_commands.rotate(settings, f"aws-kms:{arn}")
    in_kms = replace(settings, master_key=f"aws-kms:{arn}")
    assert asyncio.run(planted(in_kms)) == PLANTED
    back = master_file(settings.home, "back.key")
    key_commands.rotate(in_kms, back)
    assert asyncio.run(planted(replace(settings, master_key=back))) == PLANTED


@pytest.mark.parametrize("place", ["", "file:", "vault:x", "c2VjcmV0IGtleSBieSBtaXN0YWtl", "env:"])
def test_a_place_that_is_none_is_refused_without_being_repeated(place: str) -> None:
    with pytest.raises(Misconfigured, match="file:PATH") as refused:
        masters_wiring.master_of(place)
    assert not place or place not in refused.value.message.replace("file:PATH", "").replace("env:NAME", "")


def test_a_master_key_file_that_others_can_read_is_refused(settings: Settings) -> None:
    path = paths.encryption_key(settings)
    path.chmod(0o640)
    with pytest.raises(Misconfigured, match="chmod 600"):
        asyncio.run(planted(settings))


def test_the_commands(settings: Settings) -> None:
    runner = CliRunner(env={"POSTERN_HOME": str(settings.home), "POSTERN_DATABASE_URL": settings.database_url})
    status = ["keys", "status", "--json"]
    shown = json.loads(runner.invoke(cli, status).output)
    assert shown["rotated"]
    assert [key["organisation"] for key in shown["data_keys"]] == ["default", None]
    to = master_file(settings.home)
    done = runner.invoke(cli, ["keys", "rotate", "--to", to])
    assert (done.exit_code, done.stdout.split(";")[0]) == (0, "Encrypted 2 data keys")
    env = {"POSTERN_MASTER_KEY": to}
    again = json.loads(runner.invoke(cli, ["keys", "rotate", "--to", to, "--json"], env=env).stdout)
    assert (again["wrapped"], again["master"]) == (0, json.loads(runner.invoke(cli, status, env=env).stdout)["master"])
    renewed = json.loads(runner.invoke(cli, ["keys", "renew", "--json"], env=env).stdout)
    assert [one["organisation"] for one in renewed] == ["default", None]
    assert runner.invoke(cli, ["keys", "renew", "--organisation", "default"], env=env).exit_code == 0
    assert "(server)" in runner.invoke(cli, ["keys", "status"], env=env).stdout
    refused = runner.invoke(cli, ["keys", "status"])
    assert (refused.exit_code, "cannot be read" in refused.stdout) == (0, True)
    assert runner.invoke(cli, ["keys", "renew", "--organisation", "nobody"], env=env).exit_code == 5


def test_how_far_it_is_is_told(settings: Settings) -> None:
    asyncio.run(planted(settings))
    to = master_file(settings.home)
    wrapped, sealed = list[int](), list[int]()
    assert key_commands.rotate(settings, to, wrapped.append)[1] == sum(wrapped) == 2
    done = key_commands.renew(replace(settings, master_key=to), None, sealed.append)
    assert sum(one.values for one in done) == len(sealed) > 0


def test_what_the_commands_did_is_in_the_audit_log(settings: Settings) -> None:
    to = master_file(settings.home)
    key_commands.rotate(settings, to)
    key_commands.renew(replace(settings, master_key=to), None)

    async def entries() -> list[AuditEntry]:
        async with open_app(replace(settings, master_key=to), LocalSignals()) as app:
            org = await app.stores.organisations.default()
            return list((await app.stores.audit.find(org.id, AuditFilter(method="COMMAND"), Page())).items)

    found = {entry.action: entry for entry in asyncio.run(entries())}
    assert {action: entry.path for action, entry in found.items()} == {
        "rotate": "postern keys rotate",
        "renew": "postern keys renew",
    }
    assert found["rotate"].after is not None
    assert found["rotate"].after["wrapped"] == 2
    assert all(entry.actor_subject.startswith("host:") for entry in found.values())


def test_which_variables_hold_master_keys() -> None:
    settings = Settings(home=Path("/x"), master_key="env:OURS", master_key_old="file:/k")
    assert settings.master_key_variables == {"OURS"}


async def test_a_gateway_that_runs_seals_by_the_new_keys_as_soon_as_they_are_renewed(
    database_url: str, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path, database_url=database_url)
    await plant(settings)
    hub, signals = SignalHub(paths.signals_socket(settings)), SocketSignals(paths.signals_socket(settings))
    await hub.start()
    await signals.start()
    try:
        async with open_app(settings, signals) as app:
            before = await app.encryption.seal(b"x", row="r", org_id=None)
            await asyncio.to_thread(key_commands.renew, settings, None)

            async def changed() -> bool:
                return (await app.encryption.seal(b"x", row="r", org_id=None))[:17] != before[:17]

            await until(changed)
            assert await app.encryption.open(before, row="r", org_id=None) == b"x"
    finally:
        await signals.stop()
        await hub.stop()
