from __future__ import annotations

import base64
from uuid import uuid4

import pytest

from postern.domain.secret import Secret
from postern.domain.targets.connection import Connection, ConnectionType, SecretKind, check_secret, secret_key
from postern.errors import Invalid


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def test_values_and_references_of_both_kinds_are_taken() -> None:
    check_secret(
        {
            "envvar:PASS": encoded(b"pass"),
            "envvar:USER": "_envjson:SHOP:user",
            "filesystem:KEY": encoded(b"\x30\x82\xff\x00"),  # a file may hold any bytes
            "filesystem:CERT": "_cloudprov:shop:",
            "envvar:EMPTY": "",
        }
    )
    assert secret_key("filesystem:KEY") == (SecretKind.FILE, "KEY")


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        ({"PASS": ""}, "must be 'envvar:NAME'"),
        ({"envvar:../PASS": ""}, "must be 'envvar:NAME'"),
        ({"filesystem:a/b": ""}, "must be 'envvar:NAME'"),
        ({"envvar:PASS\n": ""}, "must be 'envvar:NAME'"),
        ({"envvar:POSTERN_USER_EMAIL": encoded(b"root")}, "are reserved for Postern"),
        ({"envvar:postern_user_email": encoded(b"root")}, "are reserved for Postern"),
        ({"envvar:KEY": "", "filesystem:KEY": ""}, "set twice"),
        ({"envvar:PASS": "not base64"}, "neither base64 text nor a reference"),
        ({"envvar:PASS": "cGFz"[:3]}, "neither base64 text nor a reference"),
        ({"envvar:PASS": "pässwörd"}, "neither base64 text nor a reference"),
        ({"envvar:PASS": encoded(b"\xff")}, "neither base64 text nor a reference"),
        ({"envvar:PASS": encoded(b"a\0b")}, "neither base64 text nor a reference"),
        ({"envvar:PASS": "_gpc:shop:password"}, "unknown provider; use one of .*_gcp:NAME:KEY"),
        ({"envvar:PASS": "_envjson:SHOP"}, "must have the form _envjson:VARIABLE:KEY"),
    ],
)
def test_others_are_refused_when_they_are_saved(secret: dict[str, str], reason: str) -> None:
    with pytest.raises(Invalid, match=reason):
        check_secret(secret)


@pytest.mark.parametrize(
    ("value", "expected"), [(encoded(b"shop"), "shop"), ("_aws:shop:DB", None), ("_old:x:y", None)]
)
def test_the_default_database_is_a_value_never_a_reference(value: str, expected: str | None) -> None:
    secret = {"envvar:DB": Secret(value)}
    connection = Connection(uuid4(), uuid4(), "shop", ConnectionType.DATABASE, "postgres", uuid4(), secret=secret)
    assert connection.default_database == expected
