"""MongoDB targets: the search for a server that can be written to, TLS and login, with credentials that only the agent
has.

    seeds: HOST, the hosts of CONNECTION_STRING, or those that DNS names
      ─▶ hello: standalone, mongos or primary ─▶ log in
                another member ─▶ the primary that it names, then all others

The agent's policy is asked before each dial, so that no server can send the agent to another network.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
import tempfile
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from postern.agent.agent_policy import LocalPolicy
from postern.agent.dialling import connect, text, tls_context
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.tracing import SpanKind, part
from postern.errors import Denied, PosternError, ProtocolViolation, Unavailable
from postern.protocols.gateway_queries import TargetRefused
from postern.protocols.mongodb.login.mongodb_target_login import (
    MongodbTargetConversation,
    ServerDescription,
    is_transient,
)
from postern.protocols.mongodb.login.mongodb_target_options import (
    PORT,
    Address,
    ConnectionString,
    MongodbTargetOptions,
    parse_address,
    read_options,
)
from postern.protocols.scram import KeyCache
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Target

ParseUri = Callable[[str], Mapping[str, Any]]

# Servers of one target that are asked at most: a hostile one could name others without end.
MAX_SERVERS: Final = 10
# Seconds in which a server without TLS may close the connection.
_TLS_TIMEOUT: Final = 3.0
_DNS_TIMEOUT: Final = 5.0  # seconds
# Addresses that are remembered as servers without TLS, and for how many seconds.
_MAX_PLAIN: Final = 256
_PLAIN_TIME: Final = 600.0


@dataclass(frozen=True, slots=True)
class _Server:
    """A server that answered."""

    stream: StreamHandshake
    conversation: MongodbTargetConversation
    description: ServerDescription


class MongodbTargets:
    """Dials targets. Caches the keys that SCRAM derives from passwords, so that each is derived once. `parse_uri` reads
    a connection string, and asks DNS for the servers of a mongodb+srv one."""

    def __init__(self, policy: LocalPolicy, parse_uri: ParseUri | None = None) -> None:
        self._policy = policy
        self._keys = KeyCache()
        self._parse_uri = parse_uri or _parse_uri
        self._plain: dict[Address, float] = {}  # until when each is remembered

    async def dial(self, order: Order, secrets: ResolvedSecrets) -> Target:
        """Dial and log in. Raises Denied, Unavailable, ConnectionError, or the target's login error."""
        uri = await self._connection_string(order.connection, secrets.values)
        application = order.start.parameters.get("application", "")
        options = read_options(order.connection, secrets.values, uri, application, self._keys)
        try:
            server, parameters = await self._log_in(options, order.timeout)
        except (ConnectionError, TargetRefused) as error:
            # Drivers repeat a login that fails like this. They do not repeat the one at the gateway, which succeeds.
            if isinstance(error, TargetRefused) and not is_transient(error):
                raise
            server, parameters = await self._log_in(options, order.timeout)
        database = order.start.database or text(secrets.values, "DB") or uri.database
        return Target(server.stream, {**parameters, "database": database})

    async def _log_in(self, options: MongodbTargetOptions, timeout: float) -> tuple[_Server, dict[str, str]]:
        """Find the server, log in to it, and return it with its parameters."""
        with part("target.connect", SpanKind.CLIENT):
            server = await _Search(options, self._reach, timeout).find()
        try:
            with part("target.login", SpanKind.CLIENT):
                conversation, description = server.conversation, server.description
                await conversation.authenticate(options.login, description, verified=options.is_verified)
                return server, dict(await conversation.read_parameters(description))
        except BaseException:
            server.stream.close()
            raise

    async def cancel(self, order: Order, secrets: ResolvedSecrets, process: int, key: bytes) -> None:
        """Do nothing: a server ends the command of a client that has disconnected, and needs no other request."""

    async def _connection_string(self, connection: str, env: Mapping[str, Secret]) -> ConnectionString:
        """Return the parsed string; an empty one if the target has only keys. Raises Unavailable."""
        uri = text(env, "CONNECTION_STRING")
        if not uri and text(env, "SRV").lower() == "true":
            uri = f"mongodb+srv://{text(env, 'HOST')}/"
        if not uri:
            return ConnectionString()
        loop = asyncio.get_running_loop()
        try:
            return ConnectionString.of(await loop.run_in_executor(None, self._parse_uri, uri))
        except Exception as error:
            # Its text can quote the string, which has the password.
            reason = type(error).__name__
        name = "CONNECTION_STRING" if "CONNECTION_STRING" in env else "HOST"
        advice = "it must be mongodb://… or mongodb+srv://…, with % before special characters of the password"
        if uri.startswith("mongodb+srv:"):
            advice = "DNS must have SRV records of _mongodb._tcp for its host, which name hosts of the same domain"
        raise Unavailable(f"connection {connection!r}: secret {name} cannot be used ({reason}); {advice}")

    async def _reach(self, address: Address, options: MongodbTargetOptions, timeout: float) -> _Server:
        """Dial a server and ask what it is. Raises Denied, Unavailable, ConnectionError, ProtocolViolation, and
        TimeoutError after `timeout` seconds."""
        async with asyncio.timeout(timeout):
            return await self._negotiate(address, options, min(timeout / 2, _TLS_TIMEOUT))

    async def _negotiate(self, address: Address, options: MongodbTargetOptions, patience: float) -> _Server:
        self._policy.check_target(*address)
        if options.sslmode != "prefer":
            return await _open(address, options, encrypted=options.sslmode != "disable")
        # No server tells whether it has TLS: one without it closes the connection, or waits for more bytes.
        now = asyncio.get_running_loop().time()
        if self._plain.get(address, 0.0) > now:
            with contextlib.suppress(PosternError, ConnectionError):
                return await _open(address, options, encrypted=False)
        self._plain.pop(address, None)
        try:
            async with asyncio.timeout(patience):
                return await _open(address, options, encrypted=True)
        except (Unavailable, ConnectionError, TimeoutError):
            server = await _open(address, options, encrypted=False)
        if len(self._plain) < _MAX_PLAIN:
            self._plain[address] = now + _PLAIN_TIME
        return server


class _Search:
    """The search for one target's server. Each server is asked once."""

    def __init__(
        self,
        options: MongodbTargetOptions,
        reach: Callable[[Address, MongodbTargetOptions, float], Awaitable[_Server]],
        timeout: float,
    ) -> None:
        self._options = options
        self._reach = reach
        self._timeout = timeout / 2  # of one server, so that there is time for another one
        self._next: deque[Address] = deque(options.seeds)
        self._asked: set[Address] = set()
        self._set_names: dict[Address, str] = {}  # of those that other members have named
        self._failures: list[tuple[Address, PosternError]] = []

    async def find(self) -> _Server:
        """Return the server to log in to. Raises Denied, Unavailable, TargetRefused, ProtocolViolation."""
        while self._next and len(self._asked) < MAX_SERVERS:
            address = self._next.popleft()
            if address in self._asked:
                continue
            self._asked.add(address)
            server = await self._ask(address)
            if server is not None:
                return server
            if self._options.direct:
                break
        raise self._failure()

    async def _ask(self, address: Address) -> _Server | None:
        server: _Server | None = None
        try:
            server = await self._reach(address, self._options, self._timeout)
            self._check(address, server.description)
        except TimeoutError:
            self._failures.append((address, Unavailable(f"the target at {_spell(address)} did not answer")))
        except ConnectionError as error:
            text = f"the target at {_spell(address)} closed the connection ({error})"
            advice = "if it accepts only TLS, set SSLMODE to verify-full; if it demands a certificate, set SSLCERT"
            self._failures.append((address, Unavailable(f"{text}; {advice}")))
        except (Denied, Unavailable, ProtocolViolation) as error:
            self._failures.append((address, error))
        else:
            return server
        if server is not None:
            server.stream.close()
        return None

    def _check(self, address: Address, server: ServerDescription) -> None:
        """Check that the server is the one to log in to. Raises Unavailable; the members that it names are next."""
        expected = self._options.set_name or self._set_names.get(address, "")
        if expected and server.set_name != expected:
            raise Unavailable(f"the server at {_spell(address)} is not a member of the replica set {expected!r}")
        if server.kind != "replica_set" or server.is_writable or self._options.direct:
            return
        for name in reversed((server.primary, *server.hosts)):
            with contextlib.suppress(ValueError):
                member = parse_address(name)
                self._set_names.setdefault(member, server.set_name)
                self._next.appendleft(member)
        raise Unavailable(f"the server at {_spell(address)} is not the primary of its replica set")

    def _failure(self) -> PosternError:
        if len(self._failures) == 1:
            return self._failures[0][1]
        for _, error in self._failures:
            if isinstance(error, Denied | TargetRefused):
                return error
        reasons = "; ".join(error.message for _, error in self._failures)
        return Unavailable(f"no server of the target can be used: {reasons}. Try again once there is a primary")


async def _open(address: Address, options: MongodbTargetOptions, *, encrypted: bool) -> _Server:
    host, port = address
    context = _context(options) if encrypted else None
    stream = StreamHandshake(context, server_name=host)
    try:
        await connect(stream, host, port)
        if encrypted:
            await stream.start_tls()
        conversation = MongodbTargetConversation(stream)
        return _Server(stream, conversation, await conversation.hello(options.login))
    except BaseException:
        stream.close()
        raise


def _context(options: MongodbTargetOptions) -> ssl.SSLContext | None:
    try:
        if not options.certificate:
            return tls_context(options.sslmode, options.root)
        context = tls_context.__wrapped__(options.sslmode, options.root)  # of its own, as it has a private key
        assert context is not None
        with _secret_file(f"{options.certificate}\n{options.key.reveal()}") as path:
            context.load_cert_chain(path, password=b"")  # else OpenSSL asks the terminal for that of an encrypted key
    except (ssl.SSLError, ValueError):
        raise Unavailable(
            "SSLROOTCERT, SSLCERT or SSLKEY is not valid: they must be PEM texts, and the key must fit the certificate "
            "and must not be encrypted"
        ) from None
    return context


@contextlib.contextmanager
def _secret_file(content: str) -> Iterator[str]:
    """Yield the path of a file that only this process can read: OpenSSL reads keys from files only."""
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("key")
        with os.fdopen(number, "wb") as file:
            file.write(content.encode())
            file.flush()
            yield f"/proc/self/fd/{number}"
        return
    with tempfile.NamedTemporaryFile("w") as named:
        named.write(content)
        named.flush()
        yield named.name


def _spell(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


def _parse_uri(uri: str) -> Mapping[str, Any]:
    """Parse by MongoDB's own library, which is large and is loaded for this only. Asks DNS for mongodb+srv."""
    from pymongo.uri_parser import parse_uri

    # `warn`: options that it does not know are no error.
    return parse_uri(uri, default_port=PORT, warn=True, connect_timeout=_DNS_TIMEOUT)
