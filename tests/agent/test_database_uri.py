"""URIs of databases; those of PostgreSQL are compared with libpq's own parser."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from tests.support.certificates import issue

from postern.agent.agent_database_uri import read
from postern.domain.secret import Secret
from postern.errors import Misconfigured
from postern.protocols.mongodb.mongodb_uri import URI as MONGODB
from postern.protocols.mysql.mysql_uri import URI as MYSQL
from postern.protocols.oracledb.oracle_uri import URI as ORACLE
from postern.protocols.postgres.postgres_uri import URI as POSTGRES
from postern.protocols.protocol_database_uri import DatabaseUri

PLANTED = "planted"


def values(uri: str, kind: DatabaseUri = POSTGRES) -> dict[str, str]:
    return {name: value.reveal() for name, value in read(kind, "DATABASE_URL", Secret(uri)).items()}


def by_libpq(uri: str) -> dict[str, str]:
    found = conninfo_to_dict(uri)
    names = {"host": "HOST", "port": "PORT", "user": "USER", "password": "PASS", "dbname": "DB", "sslmode": "SSLMODE"}
    defaults = {"PORT": "5432", "DB": str(found.get("user")), "SSLMODE": "prefer"}
    return defaults | {names[name]: str(value) for name, value in found.items() if name in names and value}


def refused(uri: str, kind: DatabaseUri = POSTGRES) -> str:
    with pytest.raises(Misconfigured) as caught:
        values(uri, kind)
    assert caught.value.message.startswith("variable DATABASE_URL ")
    assert PLANTED not in caught.value.message
    assert caught.value.__context__ is None or PLANTED not in str(caught.value.__context__)
    return caught.value.message


@pytest.mark.parametrize(
    "uri",
    [
        "postgres://ann:secret@db.example:5433/shop",
        "postgresql://ann@db.example",
        "postgresql://ann@db.example/",
        "postgresql://ann:@db.example/shop?",
        "postgres://ann:p%40ss%2Fw%3Frd%25@db.example/shop",
        "postgres://ann:p?ss#w:rd,&=@db.example/shop",
        "postgres://ann:a+b@db.example/a+b",
        "postgres://ann@[2001:db8::1]:5433/shop",
        "postgres://ann@[::1]/shop",
        "postgres:///shop?host=db.example&user=ann&password=s%26t&port=6000",
        "postgres://ann:first@db.example/shop?password=second&dbname=other",
        "postgres://ann@db.example/sh%20op/more?sslmode=require&connect_timeout=10&application_name=x",
        "postgres://%61nn@%64b.example/shop?sslmode=disable",
        "postgres://ann@db.example?ssl=true",
        "postgres://ann@db.example/größe",
    ],
)
def test_postgres_uri_is_read_as_by_libpq(uri: str) -> None:
    assert values(uri) == by_libpq(uri)


part = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(user=part, password=part, database=part, port=st.integers(1, 65535))
def test_percent_encoded_parts_of_a_postgres_uri_are_decoded(
    user: str, password: str, database: str, port: int
) -> None:
    encoded = [quote(text, safe="") for text in (user, password, database)]
    uri = f"postgres://{encoded[0]}:{encoded[1]}@db.example:{port}/{encoded[2]}"
    assert values(uri) == by_libpq(uri)
    assert (values(uri)["USER"], values(uri)["PASS"], values(uri)["DB"]) == (user, password, database)


# What a URI is made of, in any order.
PIECES = [
    "u",
    "h",
    "@",
    ":",
    "/",
    "?",
    "&",
    "=",
    "%2F",
    "%40",
    "%",
    "[",
    "]",
    "::1",
    ",",
    "#",
    "+",
    " ",
    "5432",
    "ssl=true",
]
SETTINGS = ["host=", "port=5", "user=x", "password=y", "dbname=d", "sslmode=", "sslmode=require"]


@given(st.lists(st.sampled_from(PIECES + SETTINGS), max_size=12))
def test_attack_any_postgres_uri_is_read_as_by_libpq_or_rejected(pieces: list[str]) -> None:
    uri = f"postgres://{''.join(pieces)}"
    try:
        found = values(uri)
    except Misconfigured:
        return
    try:
        expected = by_libpq(uri)
    except psycopg.ProgrammingError:
        pytest.fail(f"libpq refuses {uri!r}, which was taken as {found}")
    assert found == expected


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("", "does not contain a URI"),
        (f"mysql://ann:{PLANTED}@db.example/shop", "does not contain a URI"),
        (f"host=db.example password={PLANTED}", "does not contain a URI"),
        (f"postgres://db.example/{PLANTED}", "names no user"),
        (f"postgres://ann:{PLANTED}/x@db.example/shop", "names no user"),
        (f"postgres://ann:{PLANTED}@/shop", "one host to dial"),
        (f"postgres://ann:{PLANTED}@%2Fvar%2Frun/shop", "not a Unix socket"),
        (f"postgres://ann:{PLANTED}@db1,db2/shop", "several hosts"),
        (f"postgres://ann:{PLANTED}@db1:1,db2:2/shop", "several hosts"),
        (f"postgres://ann:{PLANTED}@/shop?host=db1,db2", "one host to dial"),
        (f"postgres://ann:{PLANTED}@db.example:{PLANTED}/shop", "an invalid port"),
        (f"postgres://ann:{PLANTED}@db.example:0/shop", "an invalid port"),
        (f"postgres://ann:{PLANTED}@db.example:65536/shop", "an invalid port"),
        (f"postgres://ann:{PLANTED} x@db.example/shop", "write %20"),
        (f"postgres://ann:{PLANTED}%zz@db.example/shop", "write %25"),
        (f"postgres://ann:{PLANTED}%00@db.example/shop", "%"),
        (f"postgres://ann:{PLANTED}%ff@db.example/shop", "%"),
        (f"postgres://ann:{PLANTED}@db.example/shop?sslmode=allow", "an sslmode of"),
        (f"postgres://ann:{PLANTED}@db.example/shop?sslcert=/tmp/{PLANTED}", "settings after the ?"),
        (f"postgres://ann:{PLANTED}@db.example/shop?options=-c%20{PLANTED}", "settings after the ?"),
        (f"postgres://ann:{PLANTED}@db.example/shop?{PLANTED}=1", "settings after the ?"),
        (f"postgres://ann:{PLANTED}@db.example/shop?{PLANTED}", "NAME=VALUE"),
        ("postgres://ann@db.example/shop?sslmode=require&sslrootcert=system", "verify-full with sslrootcert=system"),
        ("postgres://ann@db.example/shop?sslmode=verify-ca&sslrootcert=/none.pem", "No such file"),
    ],
)
def test_unsupported_postgres_uri_is_rejected_without_quoting_it(uri: str, said: str) -> None:
    assert said in refused(uri)


def test_certificate_authorities_of_a_uri_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(issue("db.example").certificate)
    uri = f"postgres://ann@db.example/shop?sslrootcert={quote(str(file))}"
    for mode, wanted in (("require", "verify-ca"), ("verify-ca", "verify-ca"), ("verify-full", "verify-full")):
        found = values(f"{uri}&sslmode={mode}")
        assert (found["SSLMODE"], found["SSLROOTCERT"]) == (wanted, file.read_text())
    found = values("postgres://ann@db.example/shop?sslrootcert=system")
    assert (found["SSLMODE"], "SSLROOTCERT" in found) == ("verify-full", False)
    file.write_text("no certificate")
    assert "does not contain PEM certificates" in refused(f"{uri}&sslmode=verify-full")


MYSQL_SHOP = {"HOST": "db.example", "PORT": "3306", "USER": "ann", "PASS": "s3", "DB": "shop", "SSLMODE": "prefer"}


@pytest.mark.parametrize(
    ("uri", "changes"),
    [
        ("mysql://ann:s3@db.example/shop", {}),
        ("mariadb://ann:s3@db.example:3306/shop", {}),
        ("mysql2://ann:s3@db.example:3307/shop?encoding=utf8mb4&pool=5", {"PORT": "3307"}),
        ("mysql+pymysql://ann:s3@db.example/shop?charset=utf8mb4", {}),
        ("mysql://ann:s%2F3@[::1]/shop", {"HOST": "::1", "PASS": "s/3"}),
        ("mysql://ann:s3@db.example/shop?ssl-mode=REQUIRED", {"SSLMODE": "require"}),
        ("mysql://ann:s3@db.example/shop?ssl_mode=verify_identity", {"SSLMODE": "verify-full"}),
        ("mysql://ann:s3@db.example/shop?sslmode=disable&serverVersion=8.0", {"SSLMODE": "disable"}),
        ("mysql://ann:s3@db.example/shop?ssl=true", {"SSLMODE": "require"}),
    ],
)
def test_mysql_uri_is_read_in_the_forms_of_its_drivers(uri: str, changes: dict[str, str]) -> None:
    assert values(uri, MYSQL) == MYSQL_SHOP | changes


def test_mysql_uri_without_a_database_sets_none() -> None:
    assert "DB" not in values("mysql://ann:s3@db.example", MYSQL)


def test_mysql_uri_with_an_authority_verifies_it_in_every_mode(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(issue("db.example").certificate)
    uri = f"mysql://ann@db.example/shop?ssl-ca={quote(str(file))}"
    for mode, wanted in (("", "verify-ca"), ("&ssl-mode=REQUIRED", "verify-ca"), ("&ssl-mode=VERIFY_CA", "verify-ca")):
        found = values(f"{uri}{mode}", MYSQL)
        assert (found["SSLMODE"], found["SSLROOTCERT"]) == (wanted, file.read_text())


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        (f"postgres://ann:{PLANTED}@db.example/shop", "mysql://USER:PASSWORD@HOST:PORT/DATABASE"),
        (f"mysql://ann:{PLANTED}@db.example/shop?ssl-mode=MAYBE", "VERIFY_IDENTITY"),
        (f"mysql://ann:{PLANTED}@db.example/shop?ssl-key={PLANTED}", "settings after the ?"),
        (f"mysql://ann:{PLANTED}@db.example/shop?unix_socket=/run/{PLANTED}", "settings after the ?"),
    ],
)
def test_unsupported_mysql_uri_is_rejected_without_quoting_it(uri: str, said: str) -> None:
    assert said in refused(uri, MYSQL)


@pytest.mark.parametrize(
    ("uri", "database"),
    [
        ("mongodb://ann:p%40ss@db1:27018,db2/shop?replicaSet=rs0&authSource=users", "shop"),
        ("mongodb+srv://ann:planted@cluster.shop.example/?retryWrites=true", ""),
        ("mongodb://ann:planted@db", ""),
        ("mongodb://ann:planted@db/sh%20op", "sh op"),
        ("mongodb://%2Ftmp%2Fmongodb.sock/shop", "shop"),
    ],
)
def test_mongodb_uri_is_kept_as_it_is(uri: str, database: str) -> None:
    assert values(uri, MONGODB) == {"CONNECTION_STRING": uri, **({"DB": database} if database else {})}


@pytest.mark.parametrize(
    "uri",
    [
        "postgres://ann:planted@db/shop",
        "mongodb:ann:planted@db/shop",
        "mongodb://",
        "mongodb:///shop",
        "mongodb://ann:planted@db/sh op",
        "mongodb://ann:planted@db/sh%op",
        "mongodb+aws://ann:planted@db",
    ],
)
def test_text_that_is_no_mongodb_uri_is_rejected_without_a_quote(uri: str) -> None:
    assert "MONGODB" not in refused(uri, MONGODB)


@pytest.mark.parametrize("setting", ["native_encryption=require", "sid=XE", "native_encryption=disable&sid=XE"])
def test_settings_of_oracle_become_keys_of_the_target(setting: str) -> None:
    wanted = dict(pair.split("=") for pair in setting.upper().split("&"))
    found = values(f"oracle://ann@db.example/shop?sslmode=disable&{setting}", ORACLE)
    assert {name: found[name].upper() for name in wanted} == wanted
    assert found["SSLMODE"] == "disable"


def test_settings_of_oracle_are_unknown_to_other_databases() -> None:
    assert "native_encryption" in refused("oracle://ann@db.example/shop?native=require", ORACLE)
    assert "native_encryption" not in refused("mysql://ann@db.example/shop?native_encryption=require", MYSQL)
