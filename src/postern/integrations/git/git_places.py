"""A repository's address, and the connection to the checked IP address."""

from __future__ import annotations

import ipaddress
import os
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from postern.domain.addresses import Network, check_resolved, check_saved
from postern.domain.runbook import Repository
from postern.errors import Invalid, Unavailable
from postern.integrations.git.messages import RepositoryPolicy

NETWORKS, SCHEMES, FOLDERS = "POSTERN_RUNBOOK_NETWORKS", "POSTERN_RUNBOOK_SCHEMES", "POSTERN_RUNBOOK_FOLDERS"
MAX_URL, MAX_BRANCH = 2_000, 200  # characters
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:.]+", re.IGNORECASE)
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@+-]*")
_TRIES = 3  # addresses of a host
_CONNECT = 5.0  # seconds for each of them

Resolve = Callable[..., list[Any]]


@dataclass(frozen=True, slots=True)
class RepositoryPlace:
    """The parsed address. `path` begins with `/`, except for an ssh path relative to the user's home."""

    scheme: str
    host: str
    port: int
    user: str
    path: str

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def place_of(url: str, policy: RepositoryPolicy) -> RepositoryPlace:
    """Parse an address. Raises Invalid for one that is not allowed."""
    if not url or len(url) > MAX_URL or not url.isascii() or not url.isprintable() or set(url) & set(" \\\"'<>`"):
        raise _invalid(
            "the address of a repository must be printable ASCII without spaces, quotes, < > and backslashes"
        )
    if "://" not in url and "::" not in url.split("/")[0] and ":" in url.split("/")[0]:
        login, _, path = url.partition(":")  # user@host:path, as in scp
        user, _, host = login.rpartition("@")
        return _remote("ssh", host, None, user, path, policy)
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
    except ValueError:
        raise _invalid("the address of the repository is not a valid URL") from None
    if "://" not in url or scheme not in policy.schemes or scheme not in {*_PORTS, "file"}:
        allowed = ", ".join(f"{scheme_name}://" for scheme_name in policy.schemes)
        raise _invalid(f"the address of a repository must begin with one of {allowed}, which {SCHEMES} allows")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise _invalid("the address of a repository must not contain ? or #")
    if parts.password is not None or (parts.username is not None and scheme != "ssh"):
        raise _invalid("the address must not contain a user or password; set git_user and git_password instead")
    if scheme == "file":
        return _local(host, unquote(parts.path), policy)
    return _remote(scheme, host, port, parts.username or "", parts.path, policy)


def check_settings(repository: Repository, policy: RepositoryPolicy) -> RepositoryPlace:
    """Check all settings that need no connection. Raises Invalid."""
    place = place_of(repository.git_url, policy)
    branch, user = repository.branch, repository.git_user
    odd = set(branch) & set(" ~^:?*[\\") or any(part in branch for part in ("..", "//", "@{"))
    if branch and (
        odd or not branch.isprintable() or len(branch) > MAX_BRANCH or branch[0] in "-/." or branch[-1] in "/."
    ):
        raise Invalid("this is not a valid branch name", field="branch")
    if ":" in user or not user.isprintable():
        raise Invalid("the user name must not contain a colon or control characters", field="git_user")
    if repository.ssh_user and not _USER.fullmatch(repository.ssh_user):
        raise Invalid("this is not a valid user name", field="ssh_user")
    if place.scheme == "ssh" and not repository.ssh_key:
        raise Invalid("a repository over ssh needs a private key", field="ssh_key")
    return place


def _remote(
    scheme: str, host: str, port: int | None, user: str, path: str, policy: RepositoryPolicy
) -> RepositoryPlace:
    if scheme not in policy.schemes:
        raise _invalid(f"{scheme}:// is not among the schemes that {SCHEMES} allows")
    if not _HOST.fullmatch(host) or len(host) > 253 or port == 0:
        raise _invalid("the host in the address of the repository is not valid")
    check_saved(host, _networks(policy), NETWORKS, "git_url")
    if user and not _USER.fullmatch(user):
        raise _invalid("the user in the address of the repository is not valid")
    plain = unquote(path)
    steps = plain.strip("/").split("/")
    if not plain.strip("/") or not plain.isprintable() or any(step in ("..", ".") or step[:1] == "-" for step in steps):
        raise _invalid(
            "the address of a repository must end with a path, without . or .. and names that begin with a dash"
        )
    stored_path = path if scheme != "ssh" else plain
    return RepositoryPlace(scheme, host.lower(), port or _PORTS[scheme], user, stored_path)


def _local(host: str, path: str, policy: RepositoryPolicy) -> RepositoryPlace:
    """Return the resolved path, so that no link leads out of the allowed folders."""
    real = os.path.realpath(path)
    if host not in ("", "localhost") or not path.startswith("/") or not is_inside(real, policy.folders):
        raise _invalid(f"file:// is allowed only for folders that {FOLDERS} names")
    return RepositoryPlace("file", "", 0, "", real)


def is_inside(path: str | Path, folders: tuple[str, ...]) -> bool:
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


class CheckedRoute:
    """The way to one host. Its name is resolved once: the checked address is the one to connect to."""

    def __init__(
        self, place: RepositoryPlace, policy: RepositoryPolicy, seconds: float, resolve: Resolve = socket.getaddrinfo
    ) -> None:
        self._place = place
        self._policy = policy
        self._seconds = seconds
        self._resolve = resolve
        self._addresses: list[str] = []

    def connect(self) -> socket.socket:
        """Connect. Raises Unavailable."""
        place = self._place
        self._addresses = self._addresses or self._resolve_allowed()
        problem: OSError | None = None
        for address in self._addresses[:_TRIES]:
            try:
                new_socket = socket.create_connection((address, place.port), min(_CONNECT, self._seconds))
            except OSError as error:
                problem = error
                continue
            new_socket.settimeout(self._seconds)
            return new_socket
        raise Unavailable(f"{place.authority} cannot be reached: {_why(problem)}")

    def _resolve_allowed(self) -> list[str]:
        place = self._place
        try:
            entries = self._resolve(place.host, place.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise Unavailable(f"the host name {place.host} cannot be resolved: {_why(error)}") from None
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
        check_resolved(place.host, addresses, _networks(self._policy), NETWORKS)
        return addresses


def _networks(policy: RepositoryPolicy) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in policy.networks)


def _why(error: Exception | None) -> str:
    return (getattr(error, "strerror", "") or str(error) or type(error).__name__) if error else "it has no address"


def _invalid(message: str) -> Invalid:
    return Invalid(message, field="git_url")
