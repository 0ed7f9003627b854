"""The client of LDAP directories against a real slapd: layouts, attacks, and servers that misbehave."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.support.certificates import issue
from tests.support.slapds import BASE, NEEDED, PASSWORD, Directory, running_slapd

from postern.domain.identity.auth_config import AuthConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.errors import Invalid, Unauthenticated, Unavailable
from postern.integrations.identity.ldap_client import LdapClient

pytestmark = NEEDED


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Directory]:
    with running_slapd(tmp_path_factory.mktemp("slapd")) as running:
        yield running


@pytest.fixture
def client() -> LdapClient:
    return LdapClient()


async def test_user_logs_in_with_profile_and_groups(directory: Directory, client: LdapClient) -> None:
    ann = await client.authenticate(directory.config(), "ann", Secret(PASSWORD))
    assert (ann.email, ann.name, ann.email_verified) == ("ann@example.com", "Ann Doe", True)
    assert ann.issuer == f"ldap:{BASE}"
    assert len(ann.subject) == 36
    assert ann.groups == frozenset({"dba", "a + b"})
    assert await client.find(directory.config(), ann.subject) == ann
    await client.verify(directory.config(), ann.subject, Secret(PASSWORD))
    with pytest.raises(Unauthenticated, match="is wrong"):
        await client.verify(directory.config(), ann.subject, Secret("other"))


LAYOUTS: dict[str, tuple[dict[str, Any], str, str, set[str]]] = {
    "plain on loopback": ({"urls": ("ldap://localhost:{port}",)}, "ann", PASSWORD, {"dba", "a + b"}),
    "StartTLS": ({"urls": ("ldap://localhost:{port}",), "start_tls": True}, "ann", PASSWORD, {"dba", "a + b"}),
    "posixGroup": ({"group_filter": "(&(objectClass=posixGroup)(memberUid={user}))"}, "ann", PASSWORD, {"unix"}),
    "by e-mail": ({"user_filter": "(|(uid={user})(mail={user}))"}, "ann@example.com", PASSWORD, {"dba", "a + b"}),
    "by DN template": (
        {"bind_dn": "", "bind_template": f"uid={{user}},ou=people,{BASE}", "group_filter": "(cn={user})"},
        "ann",
        PASSWORD,
        set(),
    ),
    "groups of the whole directory": ({"group_base_dn": ""}, "ann", PASSWORD, {"dba", "a + b", "admin"}),
    "no groups": ({}, "bob", "of bob", set()),
    "a name with a comma": ({}, "smith, jr", "of smith", set()),
    "a template and a name with a comma": (
        {"bind_dn": "", "bind_template": f"uid={{user}},ou=people,{BASE}", "group_filter": "(cn={user})"},
        "smith, jr",
        "of smith",
        set(),
    ),
    "a server that is gone before": (
        {"urls": ("ldaps://localhost:1", "ldaps://localhost:{tls_port}")},
        "ann",
        PASSWORD,
        {"dba", "a + b"},
    ),
}


def filled(directory: Directory, changes: dict[str, Any]) -> dict[str, Any]:
    urls = changes.get("urls")
    ports = {"{port}": str(directory.port), "{tls_port}": str(directory.tls_port)}
    if urls is None:
        return changes
    for name, port in ports.items():
        urls = tuple(url.replace(name, port) for url in urls)
    return {**changes, "urls": urls}


@pytest.mark.parametrize("case", LAYOUTS)
async def test_layouts_of_directories(directory: Directory, client: LdapClient, case: str) -> None:
    changes, user, password, groups = LAYOUTS[case]
    identity = await client.authenticate(directory.config(**filled(directory, changes)), user, Secret(password))
    assert identity.groups == frozenset(groups)


async def test_name_that_two_entries_have_is_nobodys(directory: Directory, client: LdapClient) -> None:
    with pytest.raises(Unauthenticated, match="is wrong"):
        await client.authenticate(directory.config(), "twin", Secret("of twin"))


async def test_login_by_template_is_not_taken_for_another_entry(directory: Directory, client: LdapClient) -> None:
    """The filter finds ann for everyone."""
    template = {"bind_dn": "", "bind_template": f"uid={{user}},ou=people,{BASE}"}
    config = directory.config(**template, user_filter="(|(uid=ann)(&(uid={user})(uid=nobody)))", ca=directory.ca)
    with pytest.raises((Unauthenticated, Unavailable)):
        await client.authenticate(config, "bob", Secret("of bob"))


async def test_groups_of_the_attribute_member_of(directory: Directory, client: LdapClient) -> None:
    """The server keeps `memberOf` for groups that are made while it runs."""
    config = directory.config(group_filter="")
    dn = f"uid=bob,ou=people,{BASE}"
    with directory.admin() as admin:
        for name, place in (("night \\2B day", "groups"), ("b\\C3\\BCro", "groups"), ("admin of all", "elsewhere")):
            admin.add(f"cn={name},ou={place},{BASE}", "groupOfNames", {"member": dn})
    bob = await client.authenticate(config, "bob", Secret("of bob"))
    assert bob.groups == frozenset({"night + day", "b\u00fcro"})


async def test_attributes_of_active_directory(directory: Directory, client: LdapClient) -> None:
    config = directory.like_active_directory()
    for name in ("carol", "CAROL", "carol@corp.example"):
        carol = await client.authenticate(config, name, Secret("of carol"))
    assert (carol.name, carol.groups) == ("Carol Roe", frozenset({"dba"}))
    assert carol.subject == "f3f2f1f0-f5f4-f7f6-f8f9-fafbfcfdfeff"
    assert await client.find(config, carol.subject) == carol
    dn = f"cn=Carol,ou=people,{BASE}"
    directory.set_attribute(dn, "userAccountControl", "514")
    try:
        with pytest.raises(Unauthenticated, match="disabled"):
            await client.find(config, carol.subject)
        with pytest.raises(Unauthenticated):
            await client.authenticate(config, "carol", Secret("of carol"))
    finally:
        directory.set_attribute(dn, "userAccountControl", "512")
    for subject in ("not a GUID", "00000000-0000-0000-0000-000000000000"):
        with pytest.raises(Unauthenticated):
            await client.find(config, subject)


ATTACKS: dict[str, tuple[str, str]] = {
    "wrong password": ("ann", "wrong"),
    "password of another": ("ann", "of bob"),
    "unknown user": ("eve", PASSWORD),
    "empty password": ("ann", ""),
    "password that begins with NUL": ("ann", "\0" + PASSWORD),
    "password that ends with NUL": ("ann", PASSWORD + "\0x"),
    "any user": ("*", PASSWORD),
    "beginning of a user": ("an*", PASSWORD),
    "injected filter": ("ann)(uid=*", PASSWORD),
    "injected alternative": ("*)(|(uid=ann", PASSWORD),
    "injected end": ("ann))(&(uid=ann", PASSWORD),
    "escaped character": ("an\\6e", PASSWORD),
    "NUL in the name": ("ann\0", PASSWORD),
    "DN instead of a name": (f"uid=ann,ou=people,{BASE}", PASSWORD),
    "placeholder": ("{user}", PASSWORD),
    "placeholder of groups": ("{dn}", PASSWORD),
    "empty name": ("", PASSWORD),
    "long name": ("a" * 100_000, PASSWORD),
    "line end in the name": ("ann\n", PASSWORD),
    "blank after the name": ("ann ", PASSWORD),
    "blank before the name": (" ann", PASSWORD),
    "full-width letter": ("\uff41nn", PASSWORD),
    "soft hyphen": ("a\u00adnn", PASSWORD),
    "surrogate": ("ann\ud800", PASSWORD),
}
TEMPLATES = {"search": {}, "DN template": {"bind_dn": "", "bind_template": f"uid={{user}},ou=people,{BASE}"}}


@pytest.mark.parametrize("how", TEMPLATES)
@pytest.mark.parametrize("case", ATTACKS)
async def test_attacks_on_user_names_and_passwords(
    directory: Directory, client: LdapClient, case: str, how: str
) -> None:
    user, password = ATTACKS[case]
    with pytest.raises((Unauthenticated, Unavailable)):
        await client.authenticate(directory.config(**TEMPLATES[how]), user, Secret(password))


@pytest.mark.parametrize("user", ["ann@evil.example", "CORP\\ann", "ann ", "ann,dc=evil", "a*", "a/b", "a=b", "a\tb"])
async def test_names_cannot_leave_their_place_in_a_template(
    directory: Directory, client: LdapClient, user: str
) -> None:
    config = directory.config(bind_dn="", bind_template="{user}@corp.example")
    with pytest.raises(Unauthenticated, match="is wrong"):
        await client.authenticate(config, user, Secret(PASSWORD))


async def test_groups_of_other_parts_of_the_directory_do_not_count(directory: Directory, client: LdapClient) -> None:
    """Whoever manages a part of the directory could name a group `admin`."""
    ann = await client.authenticate(directory.config(), "ann", Secret(PASSWORD))
    assert ann.groups is not None
    assert "admin" not in ann.groups


async def test_certificates_are_always_checked(directory: Directory, client: LdapClient) -> None:
    other = issue("localhost").authority
    plain = (f"ldap://localhost:{directory.port}",)
    for changes in (
        {"ca": other},
        {"ca": ""},
        {"urls": (f"ldaps://127.0.0.1:{directory.tls_port}",)},  # the certificate is for localhost
        {"urls": plain, "start_tls": True, "ca": other},
    ):
        with pytest.raises(Unavailable, match=r"(?i)certificate|verify"):
            await client.check(AuthConfig(LoginMethod.LDAP, ldap=directory.config(**changes)))
        with pytest.raises(Unavailable, match="does not answer; try again"):
            await client.authenticate(directory.config(**changes), "ann", Secret(PASSWORD))


async def test_deleted_users_are_gone(directory: Directory, client: LdapClient) -> None:
    dn = f"uid=temp,ou=people,{BASE}"
    values = {"uid": "temp", "cn": "Temp", "sn": "T", "mail": "t@example.com", "userPassword": "of temp"}
    with directory.admin() as admin:
        admin.add(dn, "inetOrgPerson", values)
    temp = await client.authenticate(directory.config(), "temp", Secret("of temp"))
    with directory.admin() as admin:
        admin.delete(dn)
    with pytest.raises(Unauthenticated, match="does not know this user any more"):
        await client.find(directory.config(), temp.subject)
    with pytest.raises(Unauthenticated):
        await client.verify(directory.config(), temp.subject, Secret("of temp"))


@pytest.mark.parametrize(
    "changes",
    [
        {"bind_password": Secret("rotated")},
        {"bind_dn": f"cn=renamed,{BASE}"},
        {"base_dn": f"ou=moved,{BASE}"},
        {"group_base_dn": f"ou=moved,{BASE}"},
    ],
)
async def test_search_that_fails_is_not_taken_for_a_user_who_is_gone(
    directory: Directory, client: LdapClient, changes: dict[str, Any]
) -> None:
    ann = await client.authenticate(directory.config(), "ann", Secret(PASSWORD))
    with pytest.raises(Unavailable):
        await client.find(directory.config(**changes), ann.subject)
    with pytest.raises(Unavailable):
        await client.authenticate(directory.config(**changes), "ann", Secret(PASSWORD))


async def test_settings_are_checked_at_the_directory(directory: Directory, client: LdapClient) -> None:
    def config(**changes: Any) -> AuthConfig:
        return AuthConfig(LoginMethod.LDAP, ldap=directory.config(**changes))

    assert await client.check(config()) == f"ldap:{BASE}"
    with pytest.raises(Invalid, match="rejects this account"):
        await client.check(config(bind_password=Secret("wrong")))
    with pytest.raises(Invalid, match="rejects this account"):
        await client.check(config(bind_dn=f"cn=nobody,{BASE}"))
    with pytest.raises(Unavailable, match="noSuchObject"):
        await client.check(config(base_dn="dc=other,dc=com"))
    with pytest.raises(Unavailable, match="below 'ou=none"):
        await client.check(config(group_base_dn=f"ou=none,{BASE}"))
    with pytest.raises(Unavailable, match="filter"):
        await client.check(config(user_filter="(uid={user}"))
    with pytest.raises(Invalid):
        await client.check(AuthConfig(LoginMethod.LDAP))


async def test_private_networks_need_the_setting(directory: Directory) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["10.0.0.7"]

    client = LdapClient(resolver=resolve)
    with pytest.raises(Unavailable, match="POSTERN_PROVIDER_NETWORKS"):
        await client.check(AuthConfig(LoginMethod.LDAP, ldap=directory.config(urls=("ldaps://dc1.example.com",))))


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server that gives each client this answer."""
    listening = socket.create_server(("127.0.0.1", 0))
    clients: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            clients.append(accepted)
            try:
                accepted.recv(65_536)
                answer(accepted)
            except OSError:
                continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()
        for accepted in clients:
            accepted.close()


def _hang(_: socket.socket) -> None:
    """Answer nothing."""


def _pour(accepted: socket.socket) -> None:
    accepted.sendall(b"\x30\x84\x7f\xff\xff\xff")  # a message of 2 GiB
    for _ in range(100_000):
        accepted.sendall(b"\0" * 65_536)


BROKEN: dict[str, Callable[[socket.socket], None]] = {
    "hangs": _hang,
    "hangs up": lambda accepted: accepted.close(),
    "speaks HTTP": lambda accepted: accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\n"),
    "sends zeros": lambda accepted: accepted.sendall(b"\0" * 4_096),
    "sends a deep message": lambda accepted: accepted.sendall(b"\x30\x80" * 2_000),
    "sends half a message": lambda accepted: accepted.sendall(bytes.fromhex("300c0201016107")),
    "sends without end": _pour,
    # A referral (result 10) to another server, in answer to the login of the account that searches.
    "refers elsewhere": lambda accepted: accepted.sendall(
        bytes.fromhex("3022020101611d0a010a04000400a314") + bytes([4, 18]) + b"ldap://127.0.0.1:1"
    ),
}


@pytest.mark.parametrize("case", BROKEN)
async def test_servers_that_misbehave_are_unavailable(directory: Directory, case: str) -> None:
    client = LdapClient(deadline=2.0)
    with answering(BROKEN[case]) as port:
        broken = f"ldap://127.0.0.1:{port}"
        with pytest.raises(Unavailable):
            await client.authenticate(directory.config(urls=(broken,)), "ann", Secret(PASSWORD))
        both = directory.config(urls=(broken, f"ldaps://localhost:{directory.tls_port}"))
        assert (await client.authenticate(both, "ann", Secret(PASSWORD))).name == "Ann Doe"


async def test_plain_answer_before_tls_is_not_read(directory: Directory) -> None:
    """StartTLS is required: a server that refuses it gets no password."""
    received: list[bytes] = []

    def refuse(accepted: socket.socket) -> None:
        accepted.sendall(bytes.fromhex("300c02010178070a010204000400"))  # protocolError
        received.append(accepted.recv(65_536))

    with answering(refuse) as port:
        config = directory.config(urls=(f"ldap://127.0.0.1:{port}",), start_tls=True)
        with pytest.raises(Unavailable):
            await LdapClient(deadline=3.0).authenticate(config, "ann", Secret(PASSWORD))
    assert all(b"reader" not in content for content in received)


async def test_missing_library_is_named(
    directory: Directory, client: LdapClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "postern.integrations.identity.ldap_server", None)
    with pytest.raises(Unavailable, match="pip install ldap3"):
        await client.check(AuthConfig(LoginMethod.LDAP, ldap=directory.config()))
