"""Attacks 4, 9 and 10 of the list: invalid certificates admit no user, whatever a library accepts."""

from __future__ import annotations

import base64
import struct
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import asyncssh
import pytest
from tests.gateway.ssh.test_attacks import signature_of, string, unproved
from tests.support.ssh_ca import fields
from tests.support.ssh_gate import Site, open_site
from tests.support.world import START, World

from postern.domain.targets.connection import Extra
from postern.protocols.ssh.listener.ssh_server import MOST_KEYS
from postern.protocols.ssh.listener.ssh_users import Proved, SshUser

HERE = "192.0.2.7"
WHO = "ann#web-1"
KIND, PRINCIPALS, CRITICAL, SIGNER, SIGNATURE = 4, 6, 9, 12, 13  # of the parts of a certificate

Made = Callable[[asyncssh.SSHKey, asyncssh.SSHKey], bytes]  # by an authority, for a key


@pytest.fixture
async def site(world: World) -> AsyncIterator[Site]:
    await world.add_user("ann")
    async with open_site(world.services()) as made:
        yield made


@pytest.fixture
async def authority(world: World, site: Site) -> asyncssh.SSHKey:
    return await trusted(world, asyncssh.generate_private_key("ssh-ed25519"))


async def trusted(world: World, key: asyncssh.SSHKey) -> asyncssh.SSHKey:
    root = await world.add_user("root", "admin")
    await world.services().ssh_authorities.create(
        root, {"name": "people", "public_key": key.export_public_key().decode()}
    )
    return key


@pytest.fixture
def key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


def by(authority: asyncssh.SSHKey, key: asyncssh.SSHKey, *names: str, **options: Any) -> bytes:
    told: dict[str, Any] = {"valid_after": START - timedelta(hours=1), "valid_before": START + timedelta(hours=1)}
    made = authority.generate_user_certificate(key, "id", principals=names, **(told | options))
    return made.public_data


def certificate(authority: asyncssh.SSHKey, key: asyncssh.SSHKey, **options: Any) -> bytes:
    return by(authority, key, "ann@example.com", **options)


def signed(authority: asyncssh.SSHKey, parts: list[bytes]) -> bytes:
    data = b"".join(parts[:SIGNATURE])
    return data + string(authority.sign(data, authority.sig_algorithms[0]))


def with_part(part: int, content: bytes) -> Made:
    """Its authority has signed even that."""

    def made(authority: asyncssh.SSHKey, key: asyncssh.SSHKey) -> bytes:
        parts = fields(certificate(authority, key))
        parts[part] = content
        return signed(authority, parts)

    return made


def named(*names: str) -> Made:
    return lambda authority, key: by(authority, key, *names)


def with_options(**options: Any) -> Made:
    return lambda authority, key: certificate(authority, key, **options)


def _of_another(authority: asyncssh.SSHKey, key: asyncssh.SSHKey) -> bytes:
    return certificate(asyncssh.generate_private_key("ssh-ed25519"), key)


def _as_if_signed(authority: asyncssh.SSHKey, key: asyncssh.SSHKey) -> bytes:
    """The certificate names the authority, but another key has signed it."""
    other = asyncssh.generate_private_key("ssh-ed25519")
    parts = fields(certificate(other, key))
    parts[SIGNER] = string(authority.public_data)
    return signed(other, parts)


def _with_names_of_its_own(authority: asyncssh.SSHKey, key: asyncssh.SSHKey) -> bytes:
    """The signature belongs to a certificate of another user."""
    parts = fields(by(authority, key, "bob@example.com"))
    parts[PRINCIPALS] = fields(certificate(authority, key))[PRINCIPALS]
    return b"".join(parts)


def _below_a_certificate(authority: asyncssh.SSHKey, key: asyncssh.SSHKey) -> bytes:
    """The signing key presents a certificate by the authority."""
    between = asyncssh.generate_private_key("ssh-ed25519")
    parts = fields(certificate(between, key))
    parts[SIGNER] = string(certificate(authority, between))
    return signed(between, parts)


def _followed_by_more(authority: asyncssh.SSHKey, key: asyncssh.SSHKey) -> bytes:
    return certificate(authority, key) + b"\0"


REFUSED: dict[str, Made] = {
    "expired": with_options(valid_before=START - timedelta(seconds=1)),
    "not valid yet": with_options(valid_after=START + timedelta(seconds=1)),
    "ends now": with_options(valid_before=START),
    "of another user": named("bob@example.com"),
    "without a principal": named(),
    "of a part of the user name": named("ann"),
    "of the login name": named(WHO),
    "of another spelling": named("Ann@example.com"),
    "of two users in one principal": named("ann@example.com,root"),
    "of a wildcard": named("*"),
    "with a trailing blank": named("ann@example.com "),
    "with a trailing NUL": named("ann@example.com\0"),
    "with a second line": named("ann@example.com\nroot"),
    "with a lookalike letter": named("\u0430nn@example.com"),
    "with invalid UTF-8": with_part(PRINCIPALS, string(string(b"ann@example.com\xff"))),
    "with truncated principals": with_part(PRINCIPALS, string(string("ann@example.com")[:-1])),
    "of a host": with_part(KIND, struct.pack(">I", 2)),
    "of an unknown kind": with_part(KIND, struct.pack(">I", 3)),
    "with a forced command": with_options(force_command="true"),
    "for another source address": with_options(source_address=["198.51.100.0/24"]),
    "with an unknown option": with_part(CRITICAL, string(string("new@example.com") + string(""))),
    "for verified users": with_part(CRITICAL, string(string("verify-required") + string(""))),
    "of another authority": _of_another,
    "with a forged authority": _as_if_signed,
    "with changed principals": _with_names_of_its_own,
    "signed by a certificate": _below_a_certificate,
    "with trailing bytes": _followed_by_more,
}


async def shown(
    site: Site, key: asyncssh.SSHKey, data: bytes, *, algorithm: bytes = b"ssh-ed25519"
) -> list[tuple[bool, Proved | None]]:
    """What becomes of it without a signature, and with one."""
    connection, server = unproved(site, WHO, HERE)
    found = []
    for message in (b"", b"it"):
        signature = signature_of(key, message, algorithm) if message else b""
        taken = await connection.validate_public_key(WHO, data, message, signature)
        found.append((taken, server.proved))
    connection.abort()
    return found


async def test_certified_key_with_a_signature_logs_in(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey
) -> None:
    asked, (taken, proved) = await shown(site, key, certificate(authority, key, source_address=["192.0.2.0/24"]))
    assert asked == (True, None)
    assert taken
    assert isinstance(proved, SshUser)
    assert proved.principal.email == "ann@example.com"
    assert proved.means.startswith("ssh-authority:")
    assert proved.expires_at == START + timedelta(hours=1)


@pytest.mark.parametrize("made", REFUSED.values(), ids=REFUSED.keys())
async def test_04_09_10_invalid_certificate_is_rejected(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey, made: Made
) -> None:
    assert await shown(site, key, made(authority, key)) == [(False, None), (False, None)]


async def test_certificate_signed_with_sha_1_is_rejected(world: World, site: Site, key: asyncssh.SSHKey) -> None:
    authority = await trusted(world, asyncssh.generate_private_key("ssh-rsa"))
    assert (await shown(site, key, certificate(authority, key)))[1][0]
    weak = certificate(authority, key, sig_alg="ssh-rsa")
    assert await shown(site, key, weak) == [(False, None), (False, None)]


async def test_client_signature_with_sha_1_is_rejected(site: Site, authority: asyncssh.SSHKey) -> None:
    key = asyncssh.generate_private_key("ssh-rsa")
    site.keys.own("ann", key)
    for data in (certificate(authority, key), key.public_data):
        assert (await shown(site, key, data, algorithm=b"rsa-sha2-256"))[1][0]
        assert (await shown(site, key, data, algorithm=b"ssh-rsa"))[1] == (False, None)


async def test_only_the_certified_key_can_sign_for_its_certificate(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey
) -> None:
    data = certificate(authority, key)
    known = site.keys.add("bob")
    for signer in (authority, known):
        assert await shown(site, signer, data) == [(True, None), (False, None)]
    assert await shown(site, key, key.public_data) == [(False, None), (False, None)]


async def test_signature_is_valid_only_for_the_key_it_was_made_with(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey
) -> None:
    data, bobs = certificate(authority, key), site.keys.add("bob")
    connection, server = unproved(site, WHO, HERE)

    async def asked(shown: bytes, signed_by: asyncssh.SSHKey | None = None) -> tuple[bool, str]:
        message, signature = (b"", b"") if signed_by is None else (b"it", signature_of(signed_by, b"it"))
        taken = await connection.validate_public_key(WHO, shown, message, signature)
        proved = server.proved
        return taken, proved.principal.email if isinstance(proved, SshUser) else ""

    assert await asked(data) == (True, "")
    assert await asked(bobs.public_data, bobs) == (True, "bob@example.com")
    assert await asked(data) == (True, "")
    assert await asked(data, bobs) == (False, "")
    assert await asked(data, key) == (True, "ann@example.com")
    assert await asked(key.public_data, key) == (False, "")
    with pytest.raises(asyncssh.DisconnectError):
        server.auth_completed()
    connection.abort()


async def test_certificates_offered_per_connection_are_limited(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey
) -> None:
    connection, _ = unproved(site, WHO, HERE)
    data = _as_if_signed(authority, key)
    for _ in range(MOST_KEYS):
        assert not await connection.validate_public_key(WHO, data, b"", b"")
    with pytest.raises(asyncssh.DisconnectError):
        await connection.validate_public_key(WHO, data, b"", b"")
    connection.abort()


async def test_client_with_a_certificate_reaches_the_named_connection(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey
) -> None:
    proof = (key, asyncssh.import_certificate(_line(certificate(authority, key))))
    async with await site.connect(WHO, client_keys=[proof]) as conn:
        await conn.run("true")
    assert site.flow.asked == [("ann@example.com", "web-1")]
    forged = (key, asyncssh.import_certificate(_line(_of_another(authority, key))))
    with pytest.raises(asyncssh.PermissionDenied):
        await site.connect(WHO, client_keys=[forged], preferred_auth=["publickey"])


@pytest.mark.parametrize("permitted", [True, False])
async def test_agent_is_forwarded_only_if_the_certificate_permits_it(
    site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey, permitted: bool
) -> None:
    site.flow.allowed = frozenset({Extra.FORWARD_AGENT})
    made = certificate(authority, key, permit_agent_forwarding=permitted)
    proof = (key, asyncssh.import_certificate(_line(made)))
    async with await site.connect(WHO, client_keys=[proof], agent_forwarding="/nowhere") as conn:
        assert (await conn.run("true")).exit_status == 0
    kinds = [start.channel.kind for start in site.flow.started if start.channel]
    assert kinds == (["listen", "exec"] if permitted else ["exec"])


async def test_expired_certificate_opens_no_channel(
    world: World, site: Site, authority: asyncssh.SSHKey, key: asyncssh.SSHKey
) -> None:
    """No signal announces the expiry."""
    proof = (key, asyncssh.import_certificate(_line(certificate(authority, key))))
    async with await site.connect(WHO, client_keys=[proof]) as conn:
        world.clock.forward(hours=2)
        assert (await conn.run("true")).exit_status != 0
    assert not site.flow.started
    assert "is no longer valid" in site.flow.refused[0].message


def _line(data: bytes) -> bytes:
    return b"ssh-ed25519-cert-v01@openssh.com " + base64.b64encode(data)
