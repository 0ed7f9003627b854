from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.answering import Said, answering
from tests.support.vault import ROOT, RealVault, VaultDouble

from postern.errors import Unavailable
from postern.integrations.secrets.secret_vault import VaultSecrets

VALUE = "correct horse"
KEPT: dict[str, Mapping[str, object]] = {
    "kv1/team/db": {"password": VALUE, "port": 5432},
    "kv2/team/db": {"password": VALUE, "nested": {"a": 1}},
    "kv2/team/old": {"password": VALUE},
    "kv2/odd name/d#b?": {"password": VALUE},
}
DELETED = {"kv2/team/old"}


@dataclass
class Store:
    """A Vault and the environments that log in to it."""

    address: str
    token: dict[str, str]
    role: dict[str, str]


REAL = os.environ.get("POSTERN_TEST_VAULT", "")  # the address of one in development mode, where there is one


@pytest.fixture(params=["double", "real"] if REAL else ["double"], scope="module")
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    if request.param == "real":
        token = os.environ["POSTERN_TEST_VAULT_TOKEN"]
        role, secret = RealVault(REAL, token).set_up(KEPT, DELETED)
        yield _store(REAL, token, role, secret)
        return
    double = VaultDouble(kept=dict(KEPT), deleted=set(DELETED))
    with double.serve() as address:
        yield _store(address, ROOT, *double.role)


def _store(address: str, token: str, role: str, secret: str) -> Store:
    where = {"VAULT_ADDR": address}
    return Store(address, where | {"VAULT_TOKEN": token}, where | {"VAULT_ROLE_ID": role, "VAULT_SECRET_ID": secret})


def fetch(environ: dict[str, str], version: int, path: str, key: str = "password") -> str:
    return asyncio.run(VaultSecrets(environ, version).fetch(path)).value(key).reveal()


def test_both_engine_versions_are_read_with_token_and_app_role(store: Store) -> None:
    for environ in (store.token, store.role):
        assert fetch(environ, 1, "kv1/team/db") == VALUE
        assert fetch(environ, 2, "kv2/team/db") == VALUE
        assert fetch(environ, 2, "kv2/data/team/db") == VALUE
        assert fetch(environ, 2, "/kv2/team/db/") == VALUE


def test_value_that_is_not_text_is_returned_as_json(store: Store) -> None:
    assert fetch(store.token, 1, "kv1/team/db", "port") == "5432"
    assert fetch(store.token, 2, "kv2/team/db", "nested") == '{"a": 1}'


def test_secret_name_with_special_characters_is_found(store: Store) -> None:
    assert fetch(store.token, 2, "kv2/odd name/d#b?") == VALUE


@pytest.mark.parametrize(
    ("version", "path", "key", "reason"),
    [
        (1, "kv1/team/none", "password", "nothing at this path"),
        (2, "kv2/team/none", "password", "nothing at this path"),
        (2, "kv2/team/old", "password", "nothing at this path"),
        (1, "nowhere/team/db", "password", "status 40"),
        (2, "kv2/team/db", "none", "has no key 'none'"),
        (1, "kv2/team/db", "password", "nothing at this path"),
        (1, "kv2/data/team/db", "password", "has no key 'password'"),
        (2, "kv1/team/db", "password", "nothing at this path"),
    ],
)
def test_missing_path_or_key_is_a_clear_error(store: Store, version: int, path: str, key: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        fetch(store.token, version, path, key)
    assert VALUE not in caught.value.message


def test_wrong_token_or_app_role_is_reported(store: Store) -> None:
    with pytest.raises(Unavailable, match="denied the agent access"):
        fetch(store.token | {"VAULT_TOKEN": "wrong"}, 2, "kv2/team/db")
    with pytest.raises(Unavailable, match="rejected the agent's app role"):
        fetch(store.role | {"VAULT_SECRET_ID": "wrong"}, 2, "kv2/team/db")


@pytest.mark.parametrize(
    "path",
    [
        "auth/token/lookup-self",
        "AUTH/token/lookup-self",
        "sys/auth",
        "cubbyhole/mine",
        "identity/entity/id",
        "kv1/../auth/token/lookup-self",
        "kv1/./x",
        "kv1//x",
        "kv1",
    ],
)
def test_attack_reference_cannot_read_the_agents_own_token(store: Store, path: str) -> None:
    """Vault answers every GET: a path into `auth` would give the agent's own token to a session."""
    with pytest.raises(Unavailable, match=r"cannot refer to paths|MOUNT/PATH"):
        fetch(store.token, 1, path, "id")


def test_vault_login_is_shared_and_renewed_before_it_expires() -> None:
    double = VaultDouble(kept=dict(KEPT), lease=3000)
    with double.serve() as address:
        environ = _store(address, ROOT, *double.role).role

        async def run() -> None:
            source = VaultSecrets(environ, 2)
            await asyncio.gather(*(source.fetch("kv2/team/db") for _ in range(10)))
            assert logins(double) == 1
            source._until -= 2500  # as if so many seconds had passed
            await source.fetch("kv2/team/db")
            assert logins(double) == 2
            double.tokens.clear()  # revoked
            await source.fetch("kv2/team/db")
            assert logins(double) == 3

        asyncio.run(run())


def logins(double: VaultDouble) -> int:
    return sum(asked.path.endswith("/login") for asked in double.asked)


def test_namespace_of_the_settings_is_sent() -> None:
    double = VaultDouble(kept=dict(KEPT), namespace="team-a")
    with double.serve() as address:
        environ = {"VAULT_ADDR": address, "VAULT_TOKEN": ROOT}
        assert fetch(environ | {"VAULT_NAMESPACE": "team-a"}, 2, "kv2/team/db") == VALUE
        with pytest.raises(Unavailable):
            fetch(environ, 2, "kv2/team/db")


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"VAULT_TOKEN": "t"}, "VAULT_ADDR"),
        ({"VAULT_ADDR": "http://vault.example:8200", "VAULT_TOKEN": "t"}, "https"),
        ({"VAULT_ADDR": "https://a:b@vault.example", "VAULT_TOKEN": "t"}, "plain URL"),
        ({"VAULT_ADDR": "https://vault.example"}, "neither VAULT_TOKEN nor"),
        ({"VAULT_ADDR": "https://vault.example", "VAULT_ROLE_ID": "r"}, "neither VAULT_TOKEN nor"),
        ({"VAULT_ADDR": "https://vault.example", "VAULT_TOKEN": "t", "VAULT_CACERT": "/none"}, "VAULT_CACERT"),
    ],
)
def test_missing_or_invalid_settings_are_named(environ: dict[str, str], reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        VaultSecrets(environ, 2)


def test_invalid_certificate_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    environ = {"VAULT_ADDR": "https://vault.example", "VAULT_TOKEN": "t", "VAULT_CACERT": str(tmp_path / "ca.pem")}
    with pytest.raises(Unavailable, match="VAULT_CACERT"):
        VaultSecrets(environ, 2)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (Said(307, {}, headers=(("Location", "http://127.0.0.1:1/"),)), "redirect"),
        (Said(200, {"data": {"data": {"password": "x" * 300_000}}}), "larger than"),
        (Said(200, raw=b"[" * 100_000), "did not answer with a secret"),
        (Said(200, {"data": ["x"]}), "did not answer with a secret"),
        (Said(503, {"errors": ["Vault is sealed"]}), "sealed"),
        (Said(500, {"errors": ["planted in the error"]}), "status 500"),
    ],
)
@pytest.mark.ci
def test_attack_malformed_answer_of_a_vault_is_unavailable(said: Said, reason: str) -> None:
    with answering(lambda _asked: said) as address:
        with pytest.raises(Unavailable, match=reason) as caught:
            fetch({"VAULT_ADDR": address, "VAULT_TOKEN": "t"}, 2, "kv2/team/db")
        assert "planted" not in caught.value.message
