"""Resolution of a connection's secrets when a session opens."""

from __future__ import annotations

import asyncio
import base64
import json
import traceback
from collections.abc import Mapping
from pathlib import Path
from uuid import UUID

import pytest

from postern.agent import secret_files
from postern.agent.agent_policy import LocalPolicy, ReferencePattern
from postern.agent.secret_files import PREFIX, SecretFiles
from postern.agent.secrets import ResolvedSecrets, Resolver
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.errors import Denied, Unavailable
from postern.integrations.secrets.sources import Sources
from postern.relay.orders import Order
from postern.relay.relay_target import Start

ENVIRON = {"SHOP": json.dumps({"password": "correct horse", "binary": "a\0b"})}
SESSION = UUID("11111111-2222-3333-4444-555555555555")


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def order(secret: Mapping[str, str], subtype: str = "postgres") -> Order:
    return Order(
        session_id=SESSION,
        user_id="ann-subject",
        user_email="ann@example.com",
        verb=Verb.EXEC,
        connection_id=SESSION,
        connection="shop",
        type=ConnectionType.DATABASE,
        subtype=subtype,
        command=(),
        secret={key: Secret(value) for key, value in secret.items()},
        start=Start(),
        timeout=5,
    )


@pytest.fixture
def resolver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolver:
    monkeypatch.setattr(secret_files, "places", lambda _environ: [tmp_path])
    return Resolver(Sources(ENVIRON), SecretFiles({}))


def shown(values: Mapping[str, Secret]) -> dict[str, str]:
    return {name: value.reveal() for name, value in values.items()}


def test_command_gets_its_secrets_as_variables_and_files(resolver: Resolver) -> None:
    secret = {
        "envvar:USER": encoded(b"ann"),
        "envvar:PASS": "_envjson:SHOP:password",
        "filesystem:KEY": encoded(b"\x30\xff"),
        "filesystem:CERT": encoded(b"cert"),
    }
    resolved = asyncio.run(resolver.resolve(order(secret)))
    environment = resolved.environment()
    key, cert = Path(environment.pop("KEY")), Path(environment.pop("CERT"))
    assert key.read_bytes() == b"\x30\xff"
    assert cert.read_bytes() == b"cert"
    assert environment == {
        "USER": "ann",
        "PASS": "correct horse",
        "PGPASSWORD": "correct horse",
        "POSTERN_CONNECTION_NAME": "shop",
        "POSTERN_CONNECTION_TYPE": "database",
        "POSTERN_SESSION_ID": str(SESSION),
        "POSTERN_USER_EMAIL": "ann@example.com",
        "POSTERN_USER_ID": "ann-subject",
        "POSTERN_CLIENT_VERB": "exec",
    }
    assert shown(resolved.values) == {"USER": "ann", "PASS": "correct horse", "CERT": "cert"}
    assert "correct horse" not in repr(resolved)
    resolved.release()
    resolved.release()
    assert not key.exists()
    assert not cert.parent.exists()


@pytest.mark.parametrize(
    ("subtype", "name"),
    [("postgres", "PGPASSWORD"), ("mysql", "MYSQL_PWD"), ("mssql", "SQLCMDPASSWORD"), ("oracledb", None), ("", None)],
)
async def test_password_is_set_in_the_variable_of_the_native_client(
    resolver: Resolver, subtype: str, name: str | None
) -> None:
    env = (await resolver.resolve(order({"envvar:PASS": encoded(b"p")}, subtype))).env
    found = {"PGPASSWORD", "MYSQL_PWD", "SQLCMDPASSWORD"} & set(env)
    assert found == ({name} if name else set())
    assert name is None or env[name].reveal() == "p"


async def test_password_variable_of_the_connection_is_not_overwritten(resolver: Resolver) -> None:
    secret = {"envvar:PASS": encoded(b"p"), "envvar:PGPASSWORD": encoded(b"other")}
    assert (await resolver.resolve(order(secret))).env["PGPASSWORD"].reveal() == "other"


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("envvar:PASS", "_envjson:SHOP:none", "secret PASS: _envjson:SHOP:none cannot be resolved: it has no key"),
        ("envvar:PASS", "_envjson:SHOP:binary", "secret PASS is not text"),
        ("envvar:PASS", encoded(b"\xff"), "secret PASS is not text"),
        ("envvar:PASS", "hunter2!", "secret PASS is not base64; save it again"),
        ("envvar:PASS", "_hunter2:x:y", "secret PASS: unknown provider"),
        ("filesystem:../../etc/passwd", "", "must be 'envvar:NAME' or 'filesystem:NAME'"),
        ("envvar:POSTERN_USER_EMAIL", "", "are reserved for Postern"),
    ],
)
def test_failed_secret_is_a_clear_error_without_secrets_in_it(
    resolver: Resolver, key: str, value: str, reason: str, tmp_path: Path
) -> None:
    with pytest.raises(Unavailable) as caught:
        asyncio.run(resolver.resolve(order({"filesystem:KEY": encoded(b"k"), key: value})))
    assert caught.value.message.startswith("connection 'shop': ")
    assert reason in caught.value.message
    shown = "".join(traceback.format_exception(caught.value))
    assert "hunter2" not in shown
    assert "correct horse" not in shown
    assert not list(tmp_path.glob(f"{PREFIX}*/*"))


async def test_first_failed_secret_is_reported(resolver: Resolver) -> None:
    secret = {f"envvar:S{number}": f"_envjson:SHOP:none{number}" for number in range(5)}
    with pytest.raises(Unavailable, match="secret S0"):
        await resolver.resolve(order(secret))


def test_no_secret_files_are_written_if_not_requested(resolver: Resolver, tmp_path: Path) -> None:
    secret = {"filesystem:KEY": encoded(b"k"), "envvar:USER": encoded(b"ann")}
    resolved = asyncio.run(resolver.resolve(order(secret), files=False))
    assert "KEY" not in resolved.env
    assert resolved.values["KEY"].reveal() == "k"
    assert not list(tmp_path.glob(f"{PREFIX}*/*"))


async def test_attack_secret_cannot_override_the_user_variable(resolver: Resolver) -> None:
    for name in ("POSTERN_USER_EMAIL", "postern_user_email"):
        with pytest.raises(Unavailable, match="are reserved for Postern"):
            await resolver.resolve(order({f"envvar:{name}": encoded(b"root@example.com")}))


def test_attack_reference_that_the_agent_policy_forbids_is_denied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(secret_files, "places", lambda _environ: [tmp_path])
    limited = LocalPolicy(references=(ReferencePattern.read("_envjson:SHOP:password"),))
    resolver = Resolver(Sources(ENVIRON), SecretFiles({}), limited)
    allowed = {"envvar:PASS": "_envjson:SHOP:password"}
    assert asyncio.run(resolver.resolve(order(allowed))).values["PASS"].reveal() == "correct horse"
    for reference in ("_envjson:SHOP:binary", "_envjson:OTHER:password", "_vaultkv2:kv/shop:password"):
        with pytest.raises(Denied) as caught:
            asyncio.run(
                resolver.resolve(order({**allowed, "envvar:TOKEN": reference, "filesystem:KEY": encoded(b"k")}))
            )
        assert caught.value.message == (
            f"connection 'shop': secret TOKEN: the agent's policy does not allow the reference {reference}; "
            "ask the agent's operator"
        )
    assert not list(tmp_path.glob(f"{PREFIX}*/*"))


def test_resolved_secrets_are_not_in_their_repr() -> None:
    resolved = ResolvedSecrets({"PASS": Secret("hunter2")}, {"PASS": Secret("hunter2")})
    assert "hunter2" not in f"{resolved} {resolved!r}"
