from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from postern.domain.secret import Secret
from postern.protocols.clients import NativeCredential
from postern.protocols.mysql.mysql_client import carried_line, mysql_line

AUTHORITY = Path("/home/some one/ca.crt")


@pytest.mark.parametrize("password", ["plain", "sp ace", "q\"u'o$te`\\", "a@b:c/d?e&f=g#h%i", "!!"])
@pytest.mark.parametrize("host", ["localhost", "2001:db8::1"])
def test_shell_parses_the_mysql_command_line_to_the_given_values(password: str, host: str) -> None:
    line = mysql_line(NativeCredential("who-where-abc", Secret(password), host, 7306, "sh op", AUTHORITY))
    program, *options = shlex.split(line)
    assert program == "mysql"
    given = dict(option.removeprefix("--").partition("=")[::2] for option in options)
    assert given == {
        "host": host,
        "port": "7306",
        "protocol": "tcp",
        "user": "who-where-abc",
        "password": password,
        "ssl-ca": str(AUTHORITY),
        "loose-ssl-mode": "VERIFY_IDENTITY",
        "loose-ssl-verify-server-cert": "",
        "database": "sh op",
    }


def test_mysql_command_line_names_the_system_certificates_without_an_authority() -> None:
    line = mysql_line(NativeCredential("u", Secret("p"), "localhost", 7306, "", None))
    assert "--ssl-ca" in line
    assert "--database" not in line


def test_mysql_command_line_for_a_forwarded_port_needs_no_password() -> None:
    assert carried_line("127.0.0.1", 4711, "") == "mysql --host=127.0.0.1 --port=4711 --protocol=tcp --user=me"


@pytest.mark.skipif(shutil.which("mysql") is None, reason="needs mysql: install Debian's mariadb-client")
def test_installed_mysql_client_accepts_every_option_of_the_command_line() -> None:
    line = mysql_line(NativeCredential("u", Secret("p"), "127.0.0.1", 1, "shop", None))
    done = subprocess.run(f"{line} -e 'select 1'", shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "Can't connect to" in done.stderr
    assert "[ERROR]" not in done.stderr
