"""The psql command that reaches a connection, ready to paste."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from postern.domain.secret import Secret


def psql_line(user: str, password: Secret, host: str, port: int, database: str, authority: Path | None) -> str:
    """The URI in double quotes, with all its parts quoted for a URI, so that a shell has nothing to expand.

    `authority` is the file with the gateway's CA certificate; None for the CAs that the system trusts.
    """
    trusted = str(authority) if authority else "system"
    query = urlencode({"sslmode": "verify-full", "sslrootcert": trusted}, quote_via=quote, safe="/")
    who = f"{quote(user, safe='')}:{quote(password.reveal(), safe='')}"
    return f'psql "postgresql://{who}@{_netloc(host, port)}/{quote(database, safe="")}?{query}"'


def moved(line: str, host: str, port: int) -> str:
    """The same line for a gateway that is elsewhere now."""
    uri = _uri(line)
    who = uri.netloc.rpartition("@")[0]
    return f'psql "{uri._replace(netloc=f"{who}@{_netloc(host, port)}").geturl()}"'


def user_of(line: str) -> str:
    """The user name in a line that `psql_line` made."""
    return unquote(_uri(line).username or "")


def _uri(line: str) -> SplitResult:
    return urlsplit(line.removeprefix("psql ").strip('"'))


def _netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
