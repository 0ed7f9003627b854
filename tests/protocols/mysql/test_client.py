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
def test_a_shell_reads_back_what_was_put_in(password: str, host: str) -> None:
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


def test_the_systems_authorities_are_named_by_where_they_are() -> None:
    line = mysql_line(NativeCredential("u", Secret("p"), "localhost", 7306, "", None))
    assert "--ssl-ca" in line
    assert "--database" not in line


def test_a_carried_port_needs_nothing() -> None:
    assert carried_line("127.0.0.1", 4711, "") == "mysql --host=127.0.0.1 --port=4711 --protocol=tcp --user=me"


@pytest.mark.skipif(shutil.which("mysql") is None, reason="needs mysql: install Debian's mariadb-client")
def test_the_client_that_is_here_knows_all_of_it() -> None:
    line = mysql_line(NativeCredential("u", Secret("p"), "127.0.0.1", 1, "shop", None))
    done = subprocess.run(f"{line} -e 'select 1'", shell=True, capture_output=True, text=True, timeout=60, check=False)
    assert "Can't connect to" in done.stderr
    assert "[ERROR]" not in done.stderr
