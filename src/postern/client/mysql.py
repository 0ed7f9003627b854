"""The mysql command that reaches a connection, ready to paste: for the client of MySQL and for that of MariaDB, which
call the same program differently. An option that begins with `loose` is passed over, with a warning, by the one that
does not know it."""

from __future__ import annotations

import shlex
import ssl
from pathlib import Path

from postern.domain.secret import Secret

# Each client has one of them: the server's certificate must be good, and for its name.
_VERIFY = ("--loose-ssl-mode=VERIFY_IDENTITY", "--loose-ssl-verify-server-cert")


def mysql_line(user: str, password: Secret, host: str, port: int, database: str, authority: Path | None) -> str:
    """Quoted for a shell. `authority` is the file with the gateway's CA certificate; None for the CAs that the system
    trusts. No database where the text is empty."""
    who = (f"--user={user}", f"--password={password.reveal()}")
    return _line(host, port, database, *who, _trust(authority), *_VERIFY)


def carried_line(host: str, port: int, database: str) -> str:
    """For a port that needs no password."""
    return _line(host, port, database, "--user=me")


def _line(host: str, port: int, database: str, *options: str) -> str:
    words = ["mysql", f"--host={host}", f"--port={port}", "--protocol=tcp", *options]
    return shlex.join([*words, f"--database={database}"] if database else words)


def _trust(authority: Path | None) -> str:
    if authority is not None:
        return f"--ssl-ca={authority}"
    known = ssl.get_default_verify_paths()
    return f"--ssl-ca={known.cafile}" if known.cafile else f"--ssl-capath={known.capath or known.openssl_capath}"
