"""Clients of HTTP applications: curl, and credentials as other programs take them."""

from __future__ import annotations

import shlex
from typing import Final
from urllib.parse import quote

from postern.protocols.clients import CredentialForm, NativeClient, NativeCredential, PasswordSource, netloc


def curl_line(credential: NativeCredential) -> str:
    """Return a command with a credential, quoted for a shell. Without a password it asks for it."""
    user = credential.user if credential.password is None else f"{credential.user}:{credential.password.reveal()}"
    authority = ["--cacert", str(credential.authority)] if credential.authority is not None else []
    return shlex.join(["curl", *authority, "--user", user, f"https://{credential.netloc}/"])


def carried_line(host: str, port: int, database: str) -> str:
    """Return the address of a local port, which needs no password."""
    return f"http://{netloc(host, port)}/"


def _url(credential: NativeCredential) -> str:
    """Return the address with the user name, and with the password if there is one."""
    password = "" if credential.password is None else f":{quote(credential.password.reveal(), safe='')}"
    return f"https://{quote(credential.user, safe='')}{password}@{credential.netloc}/"


def _token(credential: NativeCredential) -> str:
    """Return a bearer token, for programs that have no user name."""
    return f"{credential.user}.{'PASSWORD' if credential.password is None else credential.password.reveal()}"


def _httpie(credential: NativeCredential) -> str:
    """Return the command of HTTPie. Without a password it asks for it."""
    user = credential.user if credential.password is None else f"{credential.user}:{credential.password.reveal()}"
    authority = [f"--verify={credential.authority}"] if credential.authority is not None else []
    return shlex.join(["http", *authority, "--auth", user, f"https://{credential.netloc}/"])


def _browser(credential: NativeCredential) -> str:
    """Return the address for a browser, which logs in by the gateway's own page and needs no credential."""
    return f"{credential.web_url}/" if credential.web_url else "no browser can open it: the gateway has no listener"


def _env(credential: NativeCredential) -> str:
    """Return lines for a shell, quoted for it."""
    password = "" if credential.password is None else credential.password.reveal()
    values = {"HTTP_URL": f"https://{credential.netloc}/", "HTTP_USER": credential.user, "HTTP_PASSWORD": password}
    return "\n".join(f"export {name}={shlex.quote(value)}" for name, value in values.items())


def _netrc(credential: NativeCredential) -> str:
    """Return a line of ~/.netrc, which curl, git, pip and others read."""
    password = "PASSWORD" if credential.password is None else credential.password.reveal()
    return f"machine {credential.host} login {credential.user} password {password}"


CLIENT: Final = NativeClient(
    names=("curl",),
    package="curl",
    elsewhere="curl",
    shows_waiting=False,
    line=curl_line,
    carried_line=carried_line,
    forms={
        "httpie": CredentialForm(_httpie, PasswordSource.PROMPT),
        "browser": CredentialForm(_browser, PasswordSource.BROWSER),
        "env": CredentialForm(_env, PasswordSource.LINE),
        "url": CredentialForm(_url, PasswordSource.PROMPT),
        "token": CredentialForm(_token, PasswordSource.LINE),
        "netrc": CredentialForm(_netrc, PasswordSource.LINE),
    },
    examples=("postern connect wiki --port 8080", "$(postern connect wiki --native)"),
)
