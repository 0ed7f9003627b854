"""What users are given to reach HTTP applications with, as shells and programs read it."""

from __future__ import annotations

import netrc
import shlex
import subprocess
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from postern.domain.secret import Secret
from postern.protocols.clients import NativeCredential, PasswordSource
from postern.protocols.httpproxy.httpproxy_client import CLIENT, carried_line

PASSWORD = "ql9-Zx_7Tt0aa"
USER = "ann-grafana-abc234"


def credential(password: str | None = PASSWORD, *, authority: Path | None = None) -> NativeCredential:
    secret = None if password is None else Secret(password)
    return NativeCredential(
        USER, secret, "gateway.example.com", 7080, "", authority, web_url="https://grafana.apps.example.com:7080"
    )


def form(name: str, password: str | None = PASSWORD, authority: Path | None = None) -> str:
    return CLIENT.forms[name].text(credential(password, authority=authority))


def test_curl_and_httpie_get_the_user_and_the_authority_and_ask_for_a_missing_password(tmp_path: Path) -> None:
    authority = tmp_path / "some one" / "ca.crt"
    url = "https://gateway.example.com:7080/"
    words = shlex.split(CLIENT.line(credential(authority=authority)))
    assert words == ["curl", "--cacert", str(authority), "--user", f"{USER}:{PASSWORD}", url]
    assert shlex.split(CLIENT.line(credential(None))) == ["curl", "--user", USER, url]
    words = shlex.split(form("httpie", authority=authority))
    assert words == ["http", f"--verify={authority}", "--auth", f"{USER}:{PASSWORD}", url]
    assert shlex.split(form("httpie", None)) == ["http", "--auth", USER, url]


def test_shell_reads_the_variables() -> None:
    script = form("env") + '\nprintf "%s\\n" "$HTTP_URL" "$HTTP_USER" "$HTTP_PASSWORD"'
    shown = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True, timeout=30).stdout
    assert shown.splitlines() == ["https://gateway.example.com:7080/", USER, PASSWORD]


def test_url_and_netrc_have_user_and_password(tmp_path: Path) -> None:
    parts = urlsplit(form("url"))
    assert (parts.hostname, parts.port, parts.username) == ("gateway.example.com", 7080, USER)
    assert unquote(parts.password or "") == PASSWORD
    file = tmp_path / ".netrc"
    file.write_text(form("netrc") + "\n")
    assert netrc.netrc(file).authenticators("gateway.example.com") == (USER, "", PASSWORD)


def test_browser_gets_the_address_of_the_application_and_no_credential() -> None:
    assert form("browser") == "https://grafana.apps.example.com:7080/"
    (line,) = [line for line in CLIENT.lines(credential()) if line.name == "browser"]
    assert line.password is PasswordSource.BROWSER


def test_only_lines_for_secrets_have_the_password() -> None:
    for line in CLIENT.lines(credential()):
        assert (PASSWORD in line.text) is (line.password is PasswordSource.LINE), line.name


@pytest.mark.parametrize(("host", "url"), [("127.0.0.1", "http://127.0.0.1:8080/"), ("::1", "http://[::1]:8080/")])
def test_local_port_is_an_address_without_a_password(host: str, url: str) -> None:
    assert carried_line(host, 8080, "") == url
