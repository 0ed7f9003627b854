from __future__ import annotations

import base64

import pytest

from postern.domain.secret import Secret
from postern.domain.targets.target_keys import canonical_subtype, check_target_keys, readable_values
from postern.errors import Invalid

REQUIRED = ("envvar:HOST", "envvar:USER")


@pytest.mark.parametrize("subtype", ["postgres", "mysql", "ssh"])
@pytest.mark.parametrize("keys", [(), ("envvar:PORT", "envvar:PASS"), ("filesystem:PASS",)])
def test_keys_of_a_subtype_are_accepted(subtype: str, keys: tuple[str, ...]) -> None:
    check_target_keys(subtype, (*REQUIRED, *keys))


@pytest.mark.parametrize(
    ("subtype", "key", "meant"),
    [
        ("postgres", "PASSWORD", "PASS"),
        ("postgres", "pass", "PASS"),
        ("postgres", "PGPASSWORD", "PASS"),
        ("postgres", "USERNAME", "USER"),
        ("postgres", "DATABASE", "DB"),
        ("mysql", "HOSTNAME", "HOST"),
        ("mysql", "PROT", "PORT"),
        ("mysql", "SSL_MODE", "SSLMODE"),
        ("mysql", "SSLROOTCRT", "SSLROOTCERT"),
        ("ssh", "PRIVATEKEY", "PRIVATE_KEY"),
        ("ssh", "PASSPHRASE", "PRIVATE_KEY_PASS"),
        ("ssh", "KNOWN_HOSTS", "HOST_KEYS"),
    ],
)
def test_unknown_key_is_refused_with_the_one_that_was_meant(subtype: str, key: str, meant: str) -> None:
    with pytest.raises(Invalid, match=rf"'{key}' \(did you mean {meant}\?\)") as refused:
        check_target_keys(subtype, (*REQUIRED, f"envvar:{key}"))
    assert refused.value.field == "secret"


def test_unknown_key_that_resembles_none_is_refused_with_the_list_of_keys() -> None:
    with pytest.raises(
        Invalid, match=r"no key 'TOKEN'\. Its keys are HOST, PORT, USER, DB, SSLMODE, PASS, SSLROOTCERT"
    ):
        check_target_keys("postgres", (*REQUIRED, "envvar:TOKEN"))


def test_mongodb_needs_a_host_or_a_connection_string() -> None:
    check_target_keys("mongodb", ("envvar:HOST",))
    check_target_keys("mongodb", ("envvar:CONNECTION_STRING", "envvar:AUTHSOURCE"))
    for empty in [(), ("envvar:HOST",)]:
        with pytest.raises(Invalid, match="needs HOST or CONNECTION_STRING; give --env HOST=… or --env CONNECTION_STR"):
            check_target_keys("mongodb", ("envvar:USER", *empty), empty)


@pytest.mark.parametrize("subtype", ["postgres", "mysql", "ssh"])
@pytest.mark.parametrize("missing", ["HOST", "USER"])
@pytest.mark.parametrize("is_empty", [False, True])
def test_missing_or_empty_key_is_refused(subtype: str, missing: str, is_empty: bool) -> None:
    given = REQUIRED if is_empty else tuple(key for key in REQUIRED if key != f"envvar:{missing}")
    with pytest.raises(Invalid, match=f"needs {missing};"):
        check_target_keys(subtype, given, (f"envvar:{missing}",) if is_empty else ())


@pytest.mark.parametrize("subtype", ["", "db2"])
def test_subtype_without_a_protocol_of_its_own_takes_any_key(subtype: str) -> None:
    check_target_keys(subtype, ("envvar:TOKEN",))


@pytest.mark.parametrize(
    ("given", "stored"),
    [("postgresql", "postgres"), ("mariadb", "mysql"), ("oracle", "oracledb"), ("mysql", "mysql"), ("other", "other")],
)
def test_aliases_stand_for_the_stored_subtype(given: str, stored: str) -> None:
    assert canonical_subtype(given) == stored


def _stored(value: str) -> Secret:
    return Secret(base64.b64encode(value.encode()).decode())


@pytest.mark.parametrize(("subtype", "port"), [("postgres", "5432"), ("mysql", "3306"), ("ssh", "22")])
def test_readable_values_hold_the_address_and_nothing_secret(subtype: str, port: str) -> None:
    secret = {
        "envvar:HOST": _stored("db.example.com"),
        "filesystem:USER": _stored("app"),
        "envvar:PASS": _stored("hunter2"),
        "envvar:PRIVATE_KEY": _stored("hunter2"),
        "envvar:PRIVATE_KEY_PASS": _stored("hunter2"),
        "envvar:TOKEN": _stored("hunter2"),
    }
    assert readable_values(subtype, secret) == {"HOST": "db.example.com", "USER": "app", "PORT": port}


def test_reference_is_readable_as_a_reference() -> None:
    secret = {"envvar:HOST": Secret("_envjson:SHOP:host"), "envvar:PORT": _stored("1")}
    assert readable_values("postgres", secret) == {"HOST": "_envjson:SHOP:host", "PORT": "1"}


def test_values_of_a_custom_command_are_all_write_only() -> None:
    assert readable_values("", {"envvar:HOST": _stored("db.example.com")}) == {}
