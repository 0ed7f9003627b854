"""The forms of a credential, read back by what reads them: libpq, SQLAlchemy, a shell, Python."""

from __future__ import annotations

import ast
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import make_url

from postern.client.native_clients import CLIENTS, credential_in_form, require_form
from postern.domain.secret import Secret
from postern.errors import Invalid
from postern.protocols.clients import NativeCredential, PasswordSource
from postern.protocols.registry import PROTOCOLS

# What each form has to escape in some place: quotes, a backslash, a colon, `#`, `%`, `$`, blanks, letters beyond ASCII.
ODD = "p:a/s?s#w%4o$r`d\\ 'x\" &ü@"
NAMES = ("ann-shop-x1", ODD)


def credential(text: str, authority: Path | None = Path("/home/ann/a ca.crt")) -> NativeCredential:
    return NativeCredential(text, Secret(text), "gateway.example.com", 7432, text, authority)


@pytest.mark.parametrize("text", NAMES)
def test_postgres_uri_is_read_back_by_libpq(text: str) -> None:
    found = conninfo_to_dict(credential_in_form("postgres", "uri", credential(text)))
    assert (found["user"], found["password"], found["dbname"]) == (text, text, text)
    assert (found["host"], found["port"]) == ("gateway.example.com", "7432")
    assert (found["sslmode"], found["sslrootcert"]) == ("verify-full", "/home/ann/a ca.crt")


def test_postgres_uri_without_a_ca_of_its_own_trusts_the_system() -> None:
    found = conninfo_to_dict(credential_in_form("postgres", "uri", credential("x", None)))
    assert (found["sslmode"], found["sslrootcert"]) == ("verify-full", "system")


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("subtype", ["postgres", "mysql"])
def test_sqlalchemy_url_is_read_back(subtype: str, text: str) -> None:
    found = make_url(credential_in_form(subtype, "sqlalchemy", credential(text)))
    assert (found.username, found.password, found.database, found.port) == (text, text, text, 7432)
    options = found.get_dialect()().create_connect_args(found)[1]
    if subtype == "postgres":
        assert (options["sslmode"], options["sslrootcert"]) == ("verify-full", "/home/ann/a ca.crt")
    else:
        assert options["ssl"] == {"ca": "/home/ann/a ca.crt", "check_hostname": True}


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize(("subtype", "driver"), [("postgres", "postgresql"), ("mysql", "mariadb")])
def test_jdbc_url_escapes_its_parts(subtype: str, driver: str, text: str) -> None:
    url = credential_in_form(subtype, "jdbc", credential(text))
    parts = urlsplit(url.removeprefix("jdbc:"))
    settings = parse_qs(parts.query, strict_parsing=True)
    assert (parts.scheme, parts.netloc) == (driver, "gateway.example.com:7432")
    assert unquote(parts.path[1:]) == text
    assert (settings["user"], settings["password"]) == ([text], [text])
    assert "verify-full" in (settings.get("sslmode") or settings["sslMode"])


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize("subtype", ["postgres", "mysql"])
def test_django_settings_are_python(subtype: str, text: str) -> None:
    (statement,) = ast.parse(credential_in_form(subtype, "django", credential(text))).body
    assert isinstance(statement, ast.Assign)
    one = ast.literal_eval(statement.value)["default"]
    assert (one["USER"], one["PASSWORD"], one["NAME"], one["PORT"]) == (text, text, text, 7432)


@pytest.mark.parametrize("text", NAMES)
@pytest.mark.parametrize(
    ("subtype", "names"),
    [
        ("postgres", ("PGUSER", "PGPASSWORD", "PGDATABASE")),
        ("mysql", ("MYSQL_USER", "MYSQL_PWD", "MYSQL_DATABASE")),
    ],
)
def test_environment_is_read_back_by_a_shell(subtype: str, names: tuple[str, ...], text: str) -> None:
    lines = credential_in_form(subtype, "env", credential(text))
    printed = "".join(f"\nprintf '%s\\n' \"${name}\"" for name in names)
    done = subprocess.run(["/bin/sh", "-c", lines + printed], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [text] * 3


@pytest.mark.parametrize(("form", "subtype"), [("pgpass", "mysql"), ("my.cnf", "postgres")])
def test_form_of_the_other_database_is_refused(form: str, subtype: str) -> None:
    with pytest.raises(Invalid, match="--format"):
        credential_in_form(subtype, form, credential("x"))


def test_pgpass_escapes_colons_and_backslashes() -> None:
    one = NativeCredential("a:b", Secret("c\\d:e"), "::1", 7432, "shop", None)
    assert credential_in_form("postgres", "pgpass", one) == "\\:\\:1:7432:*:a\\:b:c\\\\d\\:e"


def test_address_of_ipv6_is_bracketed_in_urls() -> None:
    one = NativeCredential("a", Secret("b"), "::1", 7432, "shop", None)
    assert conninfo_to_dict(credential_in_form("postgres", "uri", one))["host"] == "::1"
    assert "[::1]:7432" in credential_in_form("postgres", "jdbc", one)


@pytest.mark.parametrize("subtype", [*CLIENTS])
def test_lines_contain_the_password_only_where_they_say_so(subtype: str) -> None:
    password = "s3cret-part"
    one = NativeCredential("ann-shop-x1", Secret(password), "gateway.example.com", 7432, "shop", Path("ca.crt"))
    lines = CLIENTS[subtype].lines(one)
    assert lines[0].name == CLIENTS[subtype].program
    assert {line.name for line in lines[1:]} == set(CLIENTS[subtype].forms)
    for line in lines:
        assert (password in line.text) is (line.password is PasswordSource.LINE), line.name
        assert (line.password is PasswordSource.ENVIRONMENT) <= bool(line.variable), line.name


@pytest.mark.parametrize("subtype", [*CLIENTS])
def test_lines_and_forms_of_a_credential_are_the_same_text(subtype: str) -> None:
    one = credential(ODD)
    for line in CLIENTS[subtype].lines(one)[1:]:
        given = one if line.password is PasswordSource.LINE else replace(one, password=None)
        assert line.text == credential_in_form(subtype, line.name, given)


def test_postgres_lines_without_a_password_are_read_back() -> None:
    lines = {line.name: line.text for line in CLIENTS["postgres"].lines(credential("ann"))}
    program, uri = shlex.split(lines["psql"])
    assert program == "psql"
    for text in (uri, lines["uri"]):
        found = conninfo_to_dict(text)
        assert (found["user"], found["host"], found["sslmode"]) == ("ann", "gateway.example.com", "verify-full")
        assert "password" not in found
    assert make_url(lines["sqlalchemy"]).password is None
    (statement,) = ast.parse(lines["django"]).body
    assert isinstance(statement, ast.Assign)
    assert "PASSWORD" not in ast.literal_eval(statement.value)["default"]


def test_mysql_line_without_a_password_asks_for_it() -> None:
    line = CLIENTS["mysql"].lines(credential("ann"))[0]
    assert (line.password, "--password" in shlex.split(line.text)) == (PasswordSource.PROMPT, True)


@pytest.mark.parametrize("form", ["nothing", "aws", "django", "httpie", "pytds"])
@pytest.mark.parametrize("subtype", [*CLIENTS, "ssh"])
def test_error_about_a_format_lists_those_of_the_connection(subtype: str, form: str) -> None:
    forms = list(CLIENTS[subtype].forms) if subtype in CLIENTS else []
    if form in forms:
        require_form(subtype, form)
        return
    with pytest.raises(Invalid) as caught:
        require_form(subtype, form)
    advice = f"use {' or '.join(forms)}" if forms else "leave out --format"
    assert caught.value.message == f"there is no --format {form!r} for {PROTOCOLS[subtype].servers}; {advice}"
