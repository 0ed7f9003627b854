"""Connection credentials: what is issued, for how long, to whom, and what of it is stored."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from scramp import ScramClient, ScramException, ScramMechanism
from tests.support.world import World

from postern.domain.identity.credential import Verifier, is_username
from postern.domain.identity.principal import Principal, PrincipalKind
from postern.domain.lists import Page
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.protocols.registry import PROTOCOLS
from postern.services.identity.credentials import Credentials, make_verifier
from postern.store.ports.common_ports import Topic


@pytest.fixture
def credentials(world: World) -> Credentials:
    return world.services().credentials


@pytest.fixture
async def ann(world: World) -> Principal:
    return await world.add_user("ann")


def log_in(verifier: Verifier, password: str) -> None:
    """A SCRAM-SHA-256 exchange with an independent implementation on both sides; raises when it fails."""
    mechanism = ScramMechanism("SCRAM-SHA-256")
    stored = (verifier.salt, verifier.stored_key, verifier.server_key, verifier.iterations)
    server = mechanism.make_server(lambda _username: stored)
    client = ScramClient(["SCRAM-SHA-256"], "ann", password)
    server.set_client_first(client.get_client_first())
    client.set_server_first(server.get_server_first())
    server.set_client_final(client.get_client_final())
    client.set_server_final(server.get_server_final())


async def test_the_password_logs_in_and_another_does_not(
    world: World, credentials: Credentials, ann: Principal
) -> None:
    await world.add_connection()
    issued = await credentials.issue(ann, "shop", None)
    grant = await world.stores.access.find_grant(issued.credential.username)
    assert grant is not None
    log_in(grant.verifier, issued.password.reveal())
    with pytest.raises(ScramException):
        log_in(grant.verifier, issued.password.reveal()[:-1])


def test_verifiers_are_salted_and_show_nothing() -> None:
    password = Secret("x" * 32)
    one, two = make_verifier(password), make_verifier(password)
    assert one.salt != two.salt
    assert one.stored_key != two.stored_key
    assert repr(one) == "Verifier(iterations=4096)"


async def test_issued_ones_differ_and_the_password_is_long(
    world: World, credentials: Credentials, ann: Principal
) -> None:
    await world.add_connection()
    issued = [await credentials.issue(ann, "shop", None) for _ in range(3)]
    assert len({one.credential.username for one in issued}) == 3
    passwords = {one.password.reveal() for one in issued}
    assert len(passwords) == 3
    assert all(len(password) * 6 >= 160 for password in passwords)  # base64: 6 bits a character
    assert all(set(password) <= set("-_") | set(map(chr, range(48, 123))) for password in passwords)
    assert all(password not in repr(one) for one, password in zip(issued, passwords, strict=True))


@pytest.mark.parametrize(
    ("user", "connection", "begins"),
    [
        ("ann", "shop", "ann-shop-"),
        ("Ann.O'Hara+x", "shop.eu-1", "ann_o_hara_x-shop_eu_1-"),
        ("äöü", "shop", "x-shop-"),
        ("a" * 60, "b" * 100, "a" * 27 + "-" + "b" * 28 + "-"),
        ("a" * 60, "shop", "a" * 51 + "-shop-"),
    ],
)
async def test_user_names_say_who_and_where(
    world: World, credentials: Credentials, user: str, connection: str, begins: str
) -> None:
    await world.add_connection(connection)
    issued = await credentials.issue(await world.add_user(user), connection, None)
    username = issued.credential.username
    assert username.startswith(begins)
    assert len(username.encode()) <= 63
    assert len(username) == len(begins) + 6
    assert is_username(username)


async def test_life(world: World, credentials: Credentials, ann: Principal) -> None:
    await world.add_connection()
    await world.add_connection("brief", access_max_duration=600)

    async def seconds(connection: str, asked: int | None) -> float:
        issued = (await credentials.issue(ann, connection, asked)).credential
        assert issued.expires_at is not None
        return (issued.expires_at - issued.created_at).total_seconds()

    assert await seconds("shop", None) == 12 * 3600
    assert await seconds("shop", 60) == 60
    assert await seconds("brief", None) == 600
    for connection, asked in (("brief", 601), ("shop", 0), ("shop", -1), ("shop", 10**9)):
        with pytest.raises(Invalid, match="access_duration_seconds"):
            await credentials.issue(ann, connection, asked)


async def test_machine_identity_keeps_its_credential_for_thirty_days_by_default(
    world: World, credentials: Credentials, ann: Principal
) -> None:
    await world.add_connection()
    machine = replace(ann, kind=PrincipalKind.MACHINE)
    issued = (await credentials.issue(machine, "shop", None)).credential
    assert issued.expires_at is not None
    assert issued.expires_at - issued.created_at == timedelta(days=30)


async def test_auditors_get_none(world: World, credentials: Credentials) -> None:
    await world.add_connection()
    with pytest.raises(Denied, match="auditors"):
        await credentials.issue(await world.add_user("eve", "auditor"), "shop", None)


async def test_revoking(world: World, credentials: Credentials, ann: Principal) -> None:
    await world.add_connection()
    await world.add_connection("desk")
    bob, admin = await world.add_user("bob"), await world.add_user("root", "admin")
    one, two = [(await credentials.issue(ann, "shop", None)).credential for _ in range(2)]
    with pytest.raises(NotFound):
        await credentials.revoke(bob, "shop", one.id)
    with pytest.raises(NotFound):
        await credentials.revoke(ann, "desk", one.id)
    with pytest.raises(NotFound):
        await credentials.revoke(admin, "shop", uuid4())
    await credentials.revoke(ann, "shop", one.id)
    await credentials.revoke(admin, "shop", two.id)
    first_time = world.clock()
    world.clock.forward(seconds=9)
    await credentials.revoke(ann, "shop", one.id)
    assert [payload["credential_id"] for payload in world.signals.of(Topic.CREDENTIAL_REVOKED)] == [
        str(key) for key in (one.id, two.id, one.id)
    ]
    _, listed = await credentials.find(ann, "shop", Page())
    assert {credential.revoked_at for credential in listed.items} == {first_time}
    assert not any(credential.is_active(world.clock()) for credential in listed.items)


async def test_who_sees_which(world: World, credentials: Credentials, ann: Principal) -> None:
    await world.add_connection()
    bob, auditor = await world.add_user("bob"), await world.add_user("eve", "auditor")
    of_ann = (await credentials.issue(ann, "shop", None)).credential
    world.clock.forward(seconds=1)
    of_bob = (await credentials.issue(bob, "shop", None)).credential
    assert (await credentials.find(ann, "shop", Page()))[1].items == [of_ann]
    assert (await credentials.find(auditor, "shop", Page()))[1].items == [of_bob, of_ann]


async def test_a_taken_user_name_is_tried_again(
    world: World, credentials: Credentials, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.add_connection()
    add, tries = world.stores.credentials.add, []

    async def refuse_once(*given: object) -> None:
        tries.append(given)
        if len(tries) == 1:
            raise Conflict("taken")
        await add(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(world.stores.credentials, "add", refuse_once)
    await credentials.issue(ann, "shop", None)
    assert len(tries) == 2


async def test_the_store_refuses_a_user_name_twice(world: World, credentials: Credentials, ann: Principal) -> None:
    await world.add_connection()
    issued = await credentials.issue(ann, "shop", None)
    with pytest.raises(Conflict):
        await world.stores.credentials.add(issued.credential, make_verifier(issued.password))


async def test_credential_has_a_key_for_logins_that_need_one_before_the_password(
    world: World, credentials: Credentials, ann: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "_enforceable", frozenset(PROTOCOLS))
    name = next(spec.name for spec in PROTOCOLS.values() if spec.login_key is not None)
    await world.add_connection("ledger", subtype=name)
    await world.add_connection()
    issued = await credentials.issue(ann, "ledger", None)
    grant = await world.stores.access.find_grant(issued.credential.username)
    assert grant is not None
    assert len(grant.login_key) == 48
    assert grant.login_key.hex() not in repr(grant)
    assert "login_key" not in repr(grant)
    other = await world.stores.access.find_grant((await credentials.issue(ann, "shop", None)).credential.username)
    assert other is not None
    assert other.login_key == b""
