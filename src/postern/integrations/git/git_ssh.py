"""Git over SSH, for dulwich: by asyncssh, to the checked address, and a host with a known key.

It starts no program, uses no agent and reads no configuration of this machine.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import Any

import asyncssh
from dulwich.client import SSHVendor

from postern.domain.runbook import Repository
from postern.errors import Invalid, Unavailable
from postern.integrations.git.git_places import CheckedRoute, RepositoryPlace
from postern.integrations.git.meter import Meter

USER = "git"
_LINES = 20  # lines of a server's messages
_LINE = 300  # bytes of each


def key_of(repository: Repository) -> asyncssh.SSHKey:
    """Return the private key. Raises Invalid."""
    text = repository.ssh_key.reveal().replace("\r\n", "\n").strip() + "\n"
    if not text.strip():
        raise Invalid("a repository over ssh needs a private key", field="ssh_key")
    try:
        return asyncssh.import_private_key(text, repository.ssh_keypass.reveal() or None)
    except asyncssh.KeyEncryptionError:
        raise Invalid("the passphrase does not decrypt this private key", field="ssh_keypass") from None
    except (asyncssh.KeyImportError, ValueError) as error:
        if "assphrase" in str(error):
            raise Invalid("this private key is encrypted; set its passphrase", field="ssh_keypass") from None
        raise Invalid("this is not a complete private key in OpenSSH or PEM format", field="ssh_key") from None


def known_hosts_of(repository: Repository, place: RepositoryPlace) -> asyncssh.SSHKnownHosts:
    """Return the known hosts. Raises Invalid when they are not valid, or contain no key of this host."""
    text = repository.ssh_known_hosts.strip()
    if text and not any(character.isspace() for character in text):
        try:
            text = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise Invalid(
                "this is neither a list of known hosts nor the base64 of one", field="ssh_known_hosts"
            ) from None
    try:
        hosts = asyncssh.import_known_hosts(text.replace("\r\n", "\n"))
        # Trusted keys and authorities; those after them are revoked, or X.509.
        has_key = any(hosts.match(place.host, "", place.port)[:2])
    except ValueError:
        raise Invalid("this is not a list of known hosts in OpenSSH's format", field="ssh_known_hosts") from None
    if not has_key:
        raise Invalid(f"ssh_known_hosts has no key of {place.authority}; {_advice(place)}", field="ssh_known_hosts")
    return hosts


class Ssh(SSHVendor):
    """The SSH vendor of dulwich. One command, one connection."""

    def __init__(
        self, place: RepositoryPlace, way: CheckedRoute, meter: Meter, repository: Repository, seconds: float
    ) -> None:
        self._place = place
        self._way = way
        self._meter = meter
        self._seconds = seconds
        self._key = key_of(repository)
        self._known = known_hosts_of(repository, place)
        self._user = repository.ssh_user or place.user or USER

    def run_command(self, host: str, command: bytes, *_: object, **__: object) -> Any:
        """Run a command. Raises Unavailable. `host` is ignored for the checked place."""
        runner = asyncio.Runner()
        try:
            connection, process = runner.run(self._open(command.decode()))
        except (asyncssh.Error, OSError) as error:
            raise Unavailable(self._why(error)) from None
        return _Channel(runner, connection, process, self._meter, self._place)

    async def _open(self, command: str) -> tuple[asyncssh.SSHClientConnection, asyncssh.SSHClientProcess[bytes]]:
        connected = self._way.connect()
        connected.setblocking(False)
        connection = await asyncssh.connect(
            self._place.host,
            self._place.port,
            sock=connected,
            config=None,
            username=self._user,
            client_keys=[self._key],
            known_hosts=self._known,
            agent_path=None,
            preferred_auth=["publickey"],
            gss_auth=False,
            gss_kex=False,
            x509_trusted_certs=None,
            compression_algs=["none"],
            login_timeout=self._seconds,
        )
        return connection, await connection.create_process(command, encoding=None)

    def _why(self, error: Exception) -> str:
        place = self._place
        if isinstance(error, asyncssh.HostKeyNotVerifiable):
            return f"{place.authority} has a host key that is not in ssh_known_hosts; {_advice(place)}"
        if isinstance(error, asyncssh.PermissionDenied):
            return f"{place.authority} rejected the login of {self._user!r} by this key; add its public key there"
        if isinstance(error, asyncssh.KeyExchangeFailed):
            return f"{place.authority} and Postern could not agree on SSH algorithms: {error.reason!r}"
        return f"the SSH connection to {place.authority} failed: {type(error).__name__}"


def _advice(place: RepositoryPlace) -> str:
    port = "" if place.port == 22 else f"-p {place.port} "
    return (
        f"`ssh-keyscan {port}{place.host}` prints it; compare it with the key that the host's "
        "owner publishes, then add the line"
    )


class _Channel:
    """A command on the server, with dulwich's blocking reads and writes."""

    def __init__(
        self,
        runner: asyncio.Runner,
        connection: asyncssh.SSHClientConnection,
        process: asyncssh.SSHClientProcess[bytes],
        meter: Meter,
        place: RepositoryPlace,
    ) -> None:
        self._runner = runner
        self._connection = connection
        self._process = process
        self._meter = meter
        self._host = place.authority
        self.stderr = self

    def read(self, length: int) -> bytes:
        """Return that many bytes, fewer only at the end. Raises Unavailable, Invalid."""
        size = min(length, self._meter.left + 1)
        data: bytes = self._do(self._read(size))
        self._meter.add(len(data))
        return data

    async def _read(self, length: int) -> bytes:
        try:
            return await self._process.stdout.readexactly(length)
        except asyncio.IncompleteReadError as error:
            return error.partial

    def write(self, data: bytes) -> int:
        self._process.stdin.write(data)
        self._do(self._process.stdin.drain())
        return len(data)

    def can_read(self) -> bool:
        """Return False: nothing is buffered here."""
        return False

    def readlines(self) -> list[bytes]:
        """Return the server's messages, as an explanation."""
        data: bytes = self._do(self._process.stderr.read(_LINES * _LINE))
        return [line[:_LINE] for line in data.splitlines()[:_LINES]]

    def close(self) -> None:
        self._connection.abort()
        self._runner.close()

    def _do(self, work: Any) -> Any:
        try:
            return self._runner.run(work)
        except (asyncssh.Error, OSError) as error:
            raise Unavailable(f"{self._host} closed the connection: {type(error).__name__}") from None
