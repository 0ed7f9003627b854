from __future__ import annotations

import shlex
from pathlib import Path

import psycopg.conninfo
import pytest

from postern.domain.secret import Secret
from postern.protocols.clients import NativeCredential
from postern.protocols.postgres.postgres_client import psql_line, replace_address, user_of

AUTHORITY = Path("/home/some one/ca.crt")


@pytest.mark.parametrize("password", ["plain", "sp ace", "q\"u'o$te`\\", "a@b:c/d?e&f=g#h%i"])
@pytest.mark.parametrize("host", ["localhost", "2001:db8::1"])
def test_shell_and_libpq_parse_the_psql_command_line_to_the_given_values(password: str, host: str) -> None:
    line = psql_line(NativeCredential("who-where-abc", Secret(password), host, 7432, "sh/op", AUTHORITY))
    program, uri = shlex.split(line)
    assert program == "psql"
    assert not set("$`\\!") & set(uri)
    assert psycopg.conninfo.conninfo_to_dict(uri) == {
        "user": "who-where-abc",
        "password": password,
        "host": host,
        "port": "7432",
        "dbname": "sh/op",
        "sslmode": "verify-full",
        "sslrootcert": str(AUTHORITY),
    }


def test_replaced_address_changes_only_host_and_port_of_the_command_line() -> None:
    before = psql_line(NativeCredential("u", Secret("p@w:/"), "localhost", 7432, "shop", AUTHORITY))
    after = psql_line(NativeCredential("u", Secret("p@w:/"), "db.example.com", 1234, "shop", AUTHORITY))
    assert replace_address(before, "db.example.com", 1234) == after


def test_user_name_is_read_from_the_psql_command_line() -> None:
    assert (
        user_of(psql_line(NativeCredential("w@o-where", Secret("p"), "localhost", 7432, "shop", AUTHORITY)))
        == "w@o-where"
    )
