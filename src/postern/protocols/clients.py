"""Native clients: the programs that users start, and the credentials with which these and other clients log in."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote, urlencode

from postern.domain.secret import Secret


@dataclass(frozen=True, slots=True)
class NativeCredential:
    """Credentials of a native client. `authority` is the file with the gateway's CA; None means the system's CAs.

    A `password` of None is left out of lines and forms: the client gets it in another way. `certificate` and `key` are
    the files of a client certificate, for clients that log in by one. `web_url` is where people open the connection in
    a browser, without a path.
    """

    user: str
    password: Secret | None
    host: str
    port: int
    database: str
    authority: Path | None
    certificate: Path | None = None
    key: Path | None = None
    web_url: str = ""

    @property
    def netloc(self) -> str:
        return netloc(self.host, self.port)

    @property
    def authority_file(self) -> str:
        """Return the file with the CAs to trust, for clients that do not find the system's CAs by themselves."""
        paths = ssl.get_default_verify_paths()
        return str(self.authority or paths.cafile or paths.openssl_cafile)


class PasswordSource(StrEnum):
    """How a client gets the password if its line does not contain it."""

    PROMPT = "prompt"  # the client asks for it
    ENVIRONMENT = "environment"  # the client reads it from a variable of the environment
    SETTING = "setting"  # a program gives it to its driver as a separate setting
    CERTIFICATE = "certificate"  # there is none: the client has a certificate with a private key
    BROWSER = "browser"  # it needs none: the user logs in to the gateway
    LINE = "line"  # it is in the line, because the line is a file or a set of variables for secrets


@dataclass(frozen=True, slots=True)
class CredentialForm:
    """A credential in the format of a driver, a framework or a file. `variable` is the name of the environment variable
    from which the client can read the password; empty if it reads none."""

    text: Callable[[NativeCredential], str]
    password: PasswordSource
    variable: str = ""


@dataclass(frozen=True, slots=True)
class ClientLine:
    """How one client logs in. `name` is the program or the form; the rest is as in CredentialForm."""

    name: str
    text: str
    password: PasswordSource
    variable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeClient:
    """How to call the native clients of a protocol.

    - `by_certificate`: it logs in by a client certificate, not by a password.
    - `names` are its programs, the best first; `package` is the package on Debian and Ubuntu, empty if there is none,
      and `elsewhere` is the one on macOS.
    - `shows_waiting`: the client itself shows that it waits for a review.
    - `line` is a shell command that logs in with a credential, and asks for the password if it has none;
      `password_variable` is where the program reads it instead. `carried_line` is a command for a local port (host,
      port, database) that needs no password.
    - `socket` is the file name of a local socket, and `socket_arguments` are those of a client that connects to it in a
      folder, to a database.
    - `default_database` is used by clients that must name a database.
    - `forms` print a credential in the format of a driver or framework.
    - `examples` are lines in the help of `postern connect`.
    - `dropped_variables` are removed: they would send the client elsewhere, or make it use another server's password.
    """

    names: tuple[str, ...]
    package: str
    elsewhere: str
    shows_waiting: bool
    line: Callable[[NativeCredential], str]
    carried_line: Callable[[str, int, str], str] | None = None
    socket: str = ""
    socket_arguments: Callable[[Path, str], list[str]] | None = None
    default_database: str = ""
    password_variable: str = ""
    by_certificate: bool = False
    forms: Mapping[str, CredentialForm] = field(default_factory=dict)
    examples: tuple[str, ...] = ()
    dropped_variables: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return self.names[0]

    def find(self) -> str | None:
        """Return the path of the installed program, or None if none is installed."""
        return next((path for name in self.names if (path := shutil.which(name))), None)

    def lines(self, credential: NativeCredential) -> list[ClientLine]:
        """Return how each client logs in, the program first. The password is only in lines that are for secrets, so
        that the other ones can be in a shell's history."""
        source = PasswordSource.CERTIFICATE if self.by_certificate else PasswordSource.PROMPT
        forms = {self.program: CredentialForm(self.line, source, self.password_variable), **self.forms}
        without_password = replace(credential, password=None)
        return [
            ClientLine(
                name,
                form.text(credential if form.password is PasswordSource.LINE else without_password),
                form.password,
                form.variable,
            )
            for name, form in forms.items()
        ]

    @property
    def advice(self) -> str:
        debian = f"Debian, Ubuntu: apt install {self.package}; " if self.package else ""
        return (
            f"{self.program} is not installed; install it ({debian}macOS: brew install {self.elsewhere}), or use "
            "--tunnel or --native with another client"
        )


def netloc(host: str, port: int) -> str:
    """Return host and port as a URI spells them."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def uri(scheme: str, credential: NativeCredential, settings: Mapping[str, str]) -> str:
    """Return a URI with all its parts quoted."""
    who = quote(credential.user, safe="")
    if credential.password is not None:
        who += f":{quote(credential.password.reveal(), safe='')}"
    query = urlencode(settings, quote_via=quote, safe="/")
    return f"{scheme}://{who}@{credential.netloc}/{quote(credential.database, safe='')}?{query}"


def jdbc(scheme: str, credential: NativeCredential, settings: Mapping[str, str]) -> str:
    """Return a JDBC URL, which has user and password among its parameters."""
    who = {"user": credential.user}
    if credential.password is not None:
        who["password"] = credential.password.reveal()
    query = urlencode(who | dict(settings), quote_via=quote, safe="/")
    return f"jdbc:{scheme}://{credential.netloc}/{quote(credential.database, safe='')}?{query}"
