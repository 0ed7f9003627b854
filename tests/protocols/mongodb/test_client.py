"""What users are given to connect with, read by MongoDB's own parser."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
import yaml
from pymongo.uri_parser import parse_uri

from postern.domain.secret import Secret
from postern.protocols.clients import NativeCredential
from postern.protocols.mongodb.mongodb_client import CLIENT, carried_line, mongodb_uri, mongosh_line, mongosh_words

PASSWORDS = ["plain", "sp ace", "q\"u'o$te`\\", "a@b:c/d?e&f=g#h%i", "!!", "größe"]


def credential(password: str | None, *, host: str = "localhost", authority: Path | None) -> NativeCredential:
    secret = None if password is None else Secret(password)
    return NativeCredential("who-where-abc", secret, host, 7017, "shop-1", authority)


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    folder = tmp_path / "some one"
    folder.mkdir()
    path = folder / "ca.crt"
    path.write_text("")
    return path


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("host", ["localhost", "2001:db8::1"])
def test_shell_and_driver_parse_the_command_line_to_the_given_values(password: str, host: str, authority: Path) -> None:
    program, uri = shlex.split(mongosh_line(credential(password, host=host, authority=authority)))
    parsed = parse_uri(uri, warn=False)
    assert program == "mongosh"
    assert parsed["nodelist"] == [(host, 7017)]
    assert (parsed["username"], parsed["password"], parsed["database"]) == ("who-where-abc", password, "shop-1")
    assert dict(parsed["options"]) == {
        "tls": True,
        "tlsCAFile": str(authority),
        "authMechanism": "SCRAM-SHA-256",
        "authSource": "admin",
        "loadBalanced": True,
    }


def test_connection_string_without_an_authority_trusts_those_of_the_system() -> None:
    parsed = parse_uri(mongodb_uri(credential("p", authority=None)), warn=False)
    assert "tlsCAFile" not in parsed["options"]
    assert parsed["options"]["tls"] is True


def test_connection_string_without_a_password_leaves_the_client_to_ask() -> None:
    assert "who-where-abc@" in mongodb_uri(credential(None, authority=None))


def test_command_lines_for_forwarded_ports_need_no_password() -> None:
    assert shlex.split(carried_line("127.0.0.1", 4711, "shop")) == [
        "mongosh",
        "mongodb://127.0.0.1:4711/shop?loadBalanced=true",
    ]
    (uri,) = mongosh_words(Path("/tmp/some one"), "")
    parsed = parse_uri(uri, warn=False)
    assert parsed["nodelist"] == [("/tmp/some one/mongodb.sock", None)]
    assert dict(parsed["options"]) == {"loadBalanced": True}
    assert CLIENT.socket == "mongodb.sock"


@pytest.mark.parametrize("password", PASSWORDS)
def test_forms_with_a_password_keep_its_value(password: str, authority: Path) -> None:
    given = credential(password, authority=authority)
    uri = mongodb_uri(given)
    assert shlex.split(CLIENT.forms["env"].text(given)) == ["export", f"MONGODB_URI={uri}"]
    assert yaml.safe_load(CLIENT.forms["tools"].text(given)) == {"uri": uri}


def test_forms_of_drivers_take_the_password_as_a_setting(authority: Path) -> None:
    given = credential(None, authority=authority)
    quoted = json.dumps(mongodb_uri(given))
    assert CLIENT.forms["pymongo"].text(given) == f"pymongo.MongoClient({quoted}, password=PASSWORD)"
    expected = f'new MongoClient({quoted}, {{auth: {{username: "who-where-abc", password}}}})'
    assert CLIENT.forms["node"].text(given) == expected


def test_forms_of_drivers_contain_a_password_that_is_there(authority: Path) -> None:
    given = credential("pw", authority=authority)
    quoted = json.dumps(mongodb_uri(given))
    assert CLIENT.forms["pymongo"].text(given) == f"pymongo.MongoClient({quoted})"
    assert CLIENT.forms["node"].text(given) == f"new MongoClient({quoted})"
