from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from sqlalchemy import insert, select, update
from tests.support.world import World

from postern.domain.secret import Secret
from postern.errors import Malformed, Misconfigured
from postern.store.database import Database
from postern.store.encryption import Encryption, LocalMaster, environment_key, file_key, make_file_key
from postern.store.ports.keys import DataKey
from postern.store.schema.identity_tables import orgs
from postern.store.schema.server_tables import data_keys
from postern.store.schema.target_tables import connections
from postern.store.sql.resealing import count_by_key, reseal, reseal_direct
from postern.store.sql.sql_data_keys import SqlDataKeys

KEY = os.urandom(32)


def opened(
    database: Database, key: bytes = KEY, *, old: bytes | None = None, direct: bytes | None = None
) -> Encryption:
    masters = [LocalMaster(old)] if old else []
    return Encryption(SqlDataKeys(database), LocalMaster(key), old=masters, direct=direct)


async def organisation(database: Database, name: str) -> UUID:
    key = uuid4()
    async with database.statement() as connection:
        await connection.execute(insert(orgs).values(id=key, name=name, created_at=datetime.now(UTC)))
    return key


async def test_sealed_value_opens_only_in_its_own_row(database: Database) -> None:
    encryption = opened(database)
    sealed = await encryption.seal(b"secret", row="connections/1", org_id=None)
    assert b"secret" not in sealed
    assert await encryption.open(sealed, row="connections/1", org_id=None) == b"secret"
    assert await opened(database).open(sealed, row="connections/1", org_id=None) == b"secret"
    with pytest.raises(Misconfigured, match="connections/2"):
        await encryption.open(sealed, row="connections/2", org_id=None)


async def test_changed_sealed_value_does_not_open(database: Database) -> None:
    encryption = opened(database)
    sealed = await encryption.seal(b"secret", row="connections/1", org_id=None)
    for position in range(len(sealed)):
        changed = bytearray(sealed)
        changed[position] ^= 1
        with pytest.raises(Misconfigured):
            await encryption.open(bytes(changed), row="connections/1", org_id=None)


async def test_sealed_value_copied_to_another_organisation_does_not_open(database: Database) -> None:
    encryption = opened(database)
    here, there = await organisation(database, "here"), await organisation(database, "there")
    sealed = await encryption.seal(b"secret", row="r", org_id=here)
    with pytest.raises(Misconfigured, match="a different organisation"):
        await encryption.open(sealed, row="r", org_id=there)
    # Even one who rewrites whose data key it is gains nothing: the wrapping is bound to the owner.
    async with database.statement() as connection:
        await connection.execute(update(data_keys).where(data_keys.c.org_id == here).values(org_id=there))
    with pytest.raises(Misconfigured):
        await opened(database).open(sealed, row="r", org_id=there)


async def test_secret_copied_to_another_connection_or_organisation_does_not_open(world: World) -> None:
    one, two = await world.add_connection("one"), await world.add_connection("two")
    other = await organisation(world.database, "other")
    sealed = select(connections.c.secret).where(connections.c.id == one.id).scalar_subquery()
    async with world.database.statement() as connection:
        await connection.execute(update(connections).where(connections.c.id == two.id).values(secret=sealed))
        await connection.execute(update(connections).where(connections.c.id == one.id).values(org_id=other))
    with pytest.raises(Misconfigured):
        await world.stores.connections.get(world.org_id, "two")
    with pytest.raises(Misconfigured, match="a different organisation"):
        await world.stores.connections.get(other, "one")


async def test_each_organisation_has_its_own_data_key(database: Database) -> None:
    encryption = opened(database)
    owners = [None, await organisation(database, "here"), await organisation(database, "there")]
    prefixes = {(await encryption.seal(b"x", row="r", org_id=owner))[:17] for owner in owners}
    assert len(prefixes) == 3
    assert {row.org_id for row in await SqlDataKeys(database).all()} == set(owners)


async def test_concurrent_creation_of_a_data_key_yields_one_key(database: Database) -> None:
    owner = await organisation(database, "new")
    processes = [opened(database) for _ in range(6)]
    sealed = await asyncio.gather(*(each.seal(b"x", row="r", org_id=owner) for each in processes))
    assert len({value[:17] for value in sealed}) == 1
    assert len(await SqlDataKeys(database).all()) == 1
    for each in processes:
        assert [await each.open(value, row="r", org_id=owner) for value in sealed] == [b"x"] * 6


async def test_wrong_master_key_is_misconfigured_at_start(database: Database) -> None:
    await opened(database).seal(b"x", row="r", org_id=None)
    with pytest.raises(Misconfigured, match="POSTERN_MASTER_KEY"):
        await opened(database, os.urandom(32)).load()


async def test_changed_wrapped_data_key_is_misconfigured_at_start(database: Database) -> None:
    await opened(database).seal(b"x", row="r", org_id=None)
    async with database.statement() as connection:
        await connection.execute(update(data_keys).values(wrapped=os.urandom(60)))
    with pytest.raises(Misconfigured, match="restore the master key"):
        await opened(database).load()


async def test_attack_050_data_keys_are_random_and_not_derived_from_known_values(database: Database) -> None:
    """Two stores with the same master key, organisation name and value have no bytes in common."""
    encryption = opened(database)
    one = await encryption.seal(b"x" * 64, row="r", org_id=None)
    two = await encryption.seal(b"x" * 64, row="r", org_id=None)
    assert one[17:] != two[17:]
    await encryption.renew(None)
    keys = await SqlDataKeys(database).all()
    master = LocalMaster(KEY)
    materials = [master.unwrap(key.wrapped, key.context) for key in keys]
    assert len(set(materials)) == 2
    guessable = [b"\0" * 32, KEY, *(hashlib.sha256(key.id.bytes).digest() for key in keys)]
    assert not set(materials) & set(guessable)
    for guess in guessable:
        with pytest.raises(InvalidTag):
            AESGCM(guess).decrypt(one[17:29], one[29:], one[:17] + b"r")


async def test_derived_secret_is_the_same_in_every_process_and_after_a_key_renewal(database: Database) -> None:
    first = opened(database)
    told = await first.derive("decoy salts")
    await first.renew(None)
    assert await opened(database).derive("decoy salts") == told == await first.derive("decoy salts")
    assert await first.derive("something else") != told


async def test_other_processes_seal_with_a_renewed_key_after_a_refresh(database: Database) -> None:
    one, two = opened(database), opened(database)
    before = await two.seal(b"x", row="r", org_id=None)
    await one.renew(None)
    after = await one.seal(b"x", row="r", org_id=None)
    assert await two.open(after, row="r", org_id=None) == b"x"  # a data key that it had not seen
    two.refresh()
    assert (await two.seal(b"x", row="r", org_id=None))[:17] == after[:17] != before[:17]
    assert await two.open(before, row="r", org_id=None) == b"x"


async def test_sealed_values_of_version_1_open_and_are_resealed_once(world: World) -> None:
    made = await world.add_connection(secret={"envvar:PASS": Secret("c2VjcmV0")})
    old_key, row = os.urandom(32), f"connections/{made.id}"
    nonce = os.urandom(12)
    direct = b"\x01" + nonce + AESGCM(old_key).encrypt(nonce, b'{"envvar:PASS": "b2xk"}', b"\x01" + row.encode())
    async with world.database.statement() as connection:
        await connection.execute(update(connections).values(secret=direct))
    encryption = opened(world.database, os.urandom(32), direct=old_key)
    async with world.database.statement() as connection:
        await connection.execute(data_keys.delete())
    assert await encryption.open(direct, row=row, org_id=world.org_id) == b'{"envvar:PASS": "b2xk"}'
    assert await reseal_direct(world.database, encryption) == 1
    assert await reseal_direct(world.database, encryption) == 0
    async with world.database.statement() as connection:
        sealed = (await connection.execute(select(connections.c.secret))).scalar_one()
    assert sealed[:1] == b"\x02"
    assert await encryption.open(sealed, row=row, org_id=world.org_id) == b'{"envvar:PASS": "b2xk"}'


async def test_key_renewal_reseals_all_values_during_concurrent_writes(world: World) -> None:
    for number in range(5):
        await world.add_connection(f"shop-{number}")
    writer = world.stores.connections
    encryption = world.encryption
    await encryption.renew(world.org_id)

    async def write() -> None:
        for number in range(5):
            found = await writer.get(world.org_id, f"shop-{number}")
            assert found is not None
            await writer.update(found)

    await asyncio.gather(reseal(world.database, encryption, world.org_id), write())
    assert await reseal(world.database, encryption, world.org_id) == 0
    current = next(key for key in await SqlDataKeys(world.database).all() if key.org_id and key.retired_at is None)
    assert (await count_by_key(world.database))[current.id] == 5
    for number in range(5):
        assert await writer.get(world.org_id, f"shop-{number}") is not None


class CountedKeys(SqlDataKeys):
    asked = 0

    async def all(self) -> list[DataKey]:
        self.asked += 1
        return await super().all()


async def test_sealing_and_opening_with_cached_keys_run_no_query(database: Database) -> None:
    """Admission opens one value for each login."""
    keys = CountedKeys(database)
    encryption = Encryption(keys, LocalMaster(KEY))
    sealed = await encryption.seal(b"x" * 300, row="connections/1", org_id=None)
    before = keys.asked
    for _ in range(1000):
        await encryption.open(sealed, row="connections/1", org_id=None)
    await encryption.seal(b"x", row="connections/2", org_id=None)
    assert keys.asked == before


def test_master_key_file_is_created_once_and_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "encryption.key"
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: make_file_key(path), range(4)))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["encryption.key"]
    key = file_key(path)
    make_file_key(path)
    assert file_key(path) == key


def test_missing_readable_or_short_master_key_file_is_misconfigured(tmp_path: Path) -> None:
    path = tmp_path / "encryption.key"
    with pytest.raises(Misconfigured, match="there is no key"):
        file_key(path)
    path.write_bytes(os.urandom(32))
    path.chmod(0o644)
    with pytest.raises(Misconfigured, match="chmod 600"):
        file_key(path)
    path.chmod(0o600)
    path.write_bytes(b"short")
    with pytest.raises(Misconfigured, match="5 bytes"):
        file_key(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to root")
def test_group_reads_a_master_key_of_root_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets of systemd and Kubernetes are such files, read by the group of a service that is not root."""
    path = tmp_path / "master.key"
    path.write_bytes(KEY)
    path.chmod(0o440)
    with pytest.raises(Misconfigured, match="chmod 600"):
        file_key(path)  # as root, whose files nobody else has to read
    monkeypatch.setattr(os, "geteuid", lambda: 10_001)
    assert file_key(path) == KEY
    for mode in (0o460, 0o444, 0o441):
        path.chmod(mode)
        with pytest.raises(Misconfigured, match="chmod 600"):
            file_key(path)
    path.chmod(0o440)
    os.chown(path, 10_001, 10_001)
    with pytest.raises(Misconfigured, match="chmod 600"):
        file_key(path)  # the service's own file


def test_master_key_variable_is_removed_from_the_environment() -> None:
    environ = {"KEY": base64.b64encode(KEY).decode(), "OTHER": "stays"}
    assert environment_key(environ, "KEY") == KEY
    assert environ == {"OTHER": "stays"}
    with pytest.raises(Misconfigured, match="KEY is empty"):
        environment_key(environ, "KEY")


@pytest.mark.parametrize("value", ["not base64 at all!", "c2hvcnQ="])
def test_invalid_master_key_variable_is_rejected_without_quoting_it(value: str) -> None:
    with pytest.raises(Misconfigured) as refused:
        environment_key({"KEY": value}, "KEY")
    assert value not in refused.value.message


def test_master_key_id_identifies_the_key_without_revealing_it() -> None:
    assert LocalMaster(KEY).id == LocalMaster(KEY).id != LocalMaster(os.urandom(32)).id
    assert KEY.hex() not in LocalMaster(KEY).id


async def test_keys_are_derived_from_current_and_retired_data_keys(database: Database) -> None:
    encryption, org_id = opened(database), await organisation(database, "here")
    first = await encryption.in_use(org_id)
    derived = encryption.derive_key(first, org_id, salt=b"salt", info=b"info")
    [row] = await SqlDataKeys(database).all()
    material = LocalMaster(KEY).unwrap(row.wrapped, row.context)
    assert row.id == first
    extracted = hmac.digest(b"salt", material, "sha256")
    assert derived == hmac.digest(extracted, b"info\x01", "sha256")
    assert derived != encryption.derive_key(first, org_id, salt=b"other", info=b"info")
    assert derived != encryption.derive_key(first, org_id, salt=b"salt", info=b"other")
    await encryption.renew(org_id)
    assert await encryption.in_use(org_id) != first
    assert encryption.derive_key(first, org_id, salt=b"salt", info=b"info") == derived
    other = opened(database)
    assert other.derive_key(first, org_id, salt=b"salt", info=b"info") is None
    await other.load()
    assert other.derive_key(first, org_id, salt=b"salt", info=b"info") == derived


async def test_attack_key_is_not_derived_from_the_data_key_of_another_organisation(database: Database) -> None:
    encryption = opened(database)
    here, there = await organisation(database, "here"), await organisation(database, "there")
    key = await encryption.in_use(here)
    with pytest.raises(Malformed, match="a different organisation"):
        encryption.derive_key(key, there, salt=b"salt", info=b"info")
