"""The agent's search for a server that it can log in to: fake members of replica sets on real ports."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import bson
import pytest
from tests.support.certificates import Issued, issue
from tests.support.mongodb import client_certificate, server_tls
from tests.support.mysql import listening
from tests.support.postgres import free_port
from tests.support.protocols import mongodb_login_test_messages as mongo

from postern.agent.agent_policy import LocalPolicy
from postern.agent.secrets import ResolvedSecrets
from postern.domain.secret import Secret
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import ConnectionType
from postern.errors import Denied, PosternError, Unavailable
from postern.protocols.mongodb.login.mongodb_target_login import MongodbTargetLogin
from postern.protocols.mongodb.login.mongodb_target_options import (
    ConnectionString,
    MongodbTargetOptions,
    parse_address,
    read_options,
)
from postern.protocols.mongodb.mongodb_target import MAX_SERVERS, MongodbTargets
from postern.protocols.scram import KeyCache
from postern.relay.orders import Order
from postern.relay.relay_handshake import StreamHandshake
from postern.relay.relay_target import Start, Target

ANYTHING = LocalPolicy()


def order(timeout: float = 20.0, application: str = "shop") -> Order:
    return Order(
        session_id=UUID(int=1),
        user_id="u",
        user_email="ann@example.com",
        verb=Verb.CONNECT,
        connection_id=UUID(int=2),
        connection="orders",
        type=ConnectionType.DATABASE,
        subtype="mongodb",
        command=(),
        secret={},
        start=Start(parameters={"application": application}),
        timeout=timeout,
    )


async def dial(
    values: Mapping[str, str], *, policy: LocalPolicy = ANYTHING, targets: MongodbTargets | None = None, **more: Any
) -> Target:
    secrets = ResolvedSecrets({name: Secret(value) for name, value in values.items()}, {})
    return await (targets or MongodbTargets(policy)).dial(order(**more), secrets)


class Member:
    """A server that answers hello with `hello`, and everything else with ok. `asked` counts its connections."""

    def __init__(self, **hello: Any) -> None:
        self.hello: dict[str, Any] = {"ismaster": True, "maxWireVersion": 21, "ok": 1, **hello}
        self.asked = 0
        self.commands: list[dict[str, Any]] = []

    async def __call__(self, stream: StreamHandshake) -> None:
        self.asked += 1
        if stream.tls_offered:
            await stream.start_tls()
        while True:
            head = await stream.read(16)
            length, request, opcode = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4, 12))
            if not 16 <= length <= 1 << 16:
                return  # as a server does with a TLS handshake that it does not know
            body = await stream.read(length - 16)
            document = bson.decode(body[{mongo.OP_QUERY: 23, mongo.OP_MSG: 5}[opcode] :])
            self.commands.append(document)
            make = mongo.answer if opcode == mongo.OP_QUERY else mongo.reply
            stream.write(make(self.reply(document), to=request))

    def reply(self, document: dict[str, Any]) -> dict[str, Any]:
        return self.hello if "ismaster" in document else {"ok": 1}


@contextlib.asynccontextmanager
async def serving(
    *members: Callable[[StreamHandshake], Awaitable[None]], **tls: ssl.SSLContext
) -> AsyncIterator[list[int]]:
    async with contextlib.AsyncExitStack() as stack:
        yield [await stack.enter_async_context(listening(member, **tls)) for member in members]


def secondary(*, primary: int | str | None = None, hosts: tuple[int, ...] = (), name: str = "rs0") -> Member:
    spelled = {"primary": primary if isinstance(primary, str) else f"127.0.0.1:{primary}"} if primary else {}
    return Member(
        ismaster=False, secondary=True, setName=name, hosts=[f"127.0.0.1:{port}" for port in hosts], **spelled
    )


def primary(name: str = "rs0") -> Member:
    return Member(setName=name)


def hosts(*ports: int) -> dict[str, str]:
    return {"HOST": ",".join(f"127.0.0.1:{port}" for port in ports), "SSLMODE": "disable"}


async def test_primary_that_a_secondary_names_is_dialled() -> None:
    first, second = secondary(), primary()
    async with serving(first, second) as ports:
        first.hello["primary"] = f"127.0.0.1:{ports[1]}"
        target = await dial(hosts(ports[0]))
        target.stream.close()
    assert (first.asked, second.asked) == (1, 1)
    assert target.parameters["kind"] == "replica_set"
    assert second.commands[0]["client"]["application"] == {"name": "shop"}


async def test_other_members_are_asked_when_no_primary_is_named() -> None:
    """Such as right after a failover."""
    first, second, third = secondary(), secondary(), primary()
    async with serving(first, second, third) as ports:
        first.hello["hosts"] = [f"127.0.0.1:{port}" for port in ports]
        (await dial(hosts(ports[0]))).stream.close()
    assert (first.asked, second.asked, third.asked) == (1, 1, 1)


async def test_primary_is_searched_again_after_a_failover() -> None:
    first, second = primary(), secondary()
    async with serving(first, second) as ports:
        targets, names = MongodbTargets(ANYTHING), [f"127.0.0.1:{port}" for port in ports]
        for member, hello in ((first, first.hello), (second, second.hello)):
            member.hello = {**hello, "hosts": names, "primary": names[0]}
        (await dial(hosts(ports[0]), targets=targets)).stream.close()
        assert (first.asked, second.asked) == (1, 0)
        first.hello, second.hello = second.hello, first.hello
        for member in (first, second):
            member.hello["primary"] = names[1]
        (await dial(hosts(ports[0]), targets=targets)).stream.close()
    assert (first.asked, second.asked) == (2, 1)


class Leaving(Member):
    """A server that fails its first `times` logins, with an error, or by closing the connection."""

    def __init__(self, times: int, code: int = 0) -> None:
        super().__init__()
        self.times = times
        self.code = code

    def reply(self, document: dict[str, Any]) -> dict[str, Any]:
        if "saslStart" not in document:
            return super().reply(document)
        if self.asked > self.times:
            return {"ok": 1, "done": True, "conversationId": 1, "payload": b""}
        if not self.code:
            raise ConnectionResetError
        return {"ok": 0, "code": self.code, "codeName": "SomeError", "errmsg": "not now"}

    async def log_in(self, issued: Issued, folder: Path) -> None:
        async with serving(self, context=server_tls(issued, folder)) as ports:
            tls = {"SSLMODE": "verify-full", "SSLROOTCERT": issued.authority}
            login = {"MECHANISM": "PLAIN", "USER": "app", "PASS": "x"}
            (await dial({"HOST": f"localhost:{ports[0]}", **tls, **login})).stream.close()


@pytest.mark.parametrize("code", [0, 91, 11600, 10107])
async def test_login_is_repeated_once_when_the_server_is_shutting_down(
    code: int, tmp_path: Path, issued: Issued
) -> None:
    """Drivers do the same; but their own login is at the gateway, which has succeeded by then."""
    once, always = Leaving(1, code), Leaving(10, code)
    await once.log_in(issued, tmp_path)
    assert once.asked == 2
    with pytest.raises((Unavailable, ConnectionError)):
        await always.log_in(issued, tmp_path)
    assert always.asked == 2


async def test_login_with_a_wrong_password_is_not_repeated(tmp_path: Path, issued: Issued) -> None:
    member = Leaving(1, 18)
    with pytest.raises(Unavailable, match="not now"):
        await member.log_in(issued, tmp_path)
    assert member.asked == 1


async def test_server_that_gets_tls_is_found_although_it_had_none(tmp_path: Path, issued: Issued) -> None:
    targets, member = MongodbTargets(ANYTHING), Member()

    async def serve(stream: StreamHandshake) -> None:
        if await stream.peek(1) == b"\x16":
            await member(stream)

    async with serving(serve, context=server_tls(issued, tmp_path)) as ports:
        address = ("localhost", ports[0])
        targets._plain[address] = asyncio.get_running_loop().time() + 600
        (await dial({"HOST": f"localhost:{ports[0]}"}, targets=targets)).stream.close()
    assert member.asked == 1
    assert address not in targets._plain


async def test_next_seed_is_used_when_one_is_down() -> None:
    member = primary()
    async with serving(member) as ports:
        (await dial(hosts(free_port(), ports[0]))).stream.close()


async def test_member_that_does_not_answer_leaves_time_for_the_next_one() -> None:
    async def silent(stream: StreamHandshake) -> None:
        await stream.read(1 << 20)

    async with serving(silent, primary()) as ports:
        (await dial(hosts(*ports), timeout=2.0)).stream.close()


async def test_replica_set_without_a_primary_is_an_error_that_says_so() -> None:
    first, second = secondary(), secondary()
    async with serving(first, second) as ports:
        with pytest.raises(Unavailable, match=r"no server of the target can be used: .* is not the primary") as failed:
            await dial(hosts(*ports))
    assert "Try again once there is a primary" in failed.value.message


async def test_members_that_name_each_other_are_asked_once() -> None:
    first, second = secondary(), secondary()
    async with serving(first, second) as ports:
        first.hello["primary"] = f"127.0.0.1:{ports[1]}"
        second.hello["primary"] = f"127.0.0.1:{ports[0]}"
        with pytest.raises(Unavailable):
            await dial(hosts(ports[0]))
    assert (first.asked, second.asked) == (1, 1)


async def test_members_are_asked_in_a_bounded_number() -> None:
    member = secondary()
    async with serving(member) as ports:
        # Each of these spellings is another address.
        member.hello["hosts"] = [f"127.0.0.{number}:{ports[0]}" for number in range(2, 60)]
        with pytest.raises(Unavailable):
            await dial(hosts(ports[0]), timeout=60.0)
        assert member.asked <= MAX_SERVERS


async def test_policy_is_asked_before_a_discovered_server_is_dialled() -> None:
    first, second = secondary(), primary()
    async with serving(first, second) as ports:
        first.hello["primary"] = f"127.0.0.1:{ports[1]}"
        policy = LocalPolicy(targets=(f"127.0.0.1:{ports[0]}",))
        with pytest.raises(Denied, match=f"does not allow the target 127.0.0.1:{ports[1]}"):
            await dial(hosts(ports[0]), policy=policy)
    assert second.asked == 0


async def test_named_primary_of_another_replica_set_is_refused() -> None:
    first, second = secondary(), primary("other")
    async with serving(first, second) as ports:
        first.hello["primary"] = f"127.0.0.1:{ports[1]}"
        with pytest.raises(Unavailable, match="is not a member of the replica set 'rs0'"):
            await dial(hosts(ports[0]))


@pytest.mark.parametrize("name", ["db:0", "db:99999", ":27017", "/tmp/mongodb.sock", "a b:1", ""])
async def test_named_primary_that_is_no_address_is_passed_over(name: str) -> None:
    first = secondary(primary=name)
    async with serving(first) as ports:
        with pytest.raises(Unavailable, match="is not the primary"):
            await dial(hosts(ports[0]))


@pytest.mark.parametrize(("hello", "kind"), [({}, "standalone"), ({"msg": "isdbgrid"}, "mongos")])
async def test_standalone_and_mongos_are_used_as_they_are(hello: Mapping[str, Any], kind: str) -> None:
    async with serving(Member(**hello)) as ports:
        target = await dial(hosts(ports[0]))
        target.stream.close()
    assert target.parameters["kind"] == kind


async def test_secondary_is_used_if_the_connection_string_says_so() -> None:
    async with serving(secondary(primary="nowhere:1")) as ports:
        uri = f"mongodb://127.0.0.1:{ports[0]}/?directConnection=true"
        (await dial({"CONNECTION_STRING": uri})).stream.close()


async def test_replica_set_of_the_connection_string_must_be_the_target() -> None:
    async with serving(primary()) as ports:
        with pytest.raises(Unavailable, match="is not a member of the replica set 'rs1'"):
            await dial({"CONNECTION_STRING": f"mongodb://127.0.0.1:{ports[0]}/?replicaSet=rs1"})


@pytest.fixture(scope="module")
def issued() -> Issued:
    return issue("localhost")


async def silent_before_tls(stream: StreamHandshake) -> None:
    """A server without TLS that waits for the rest of what it takes for a long message."""
    if await stream.peek(1) == b"\x16":
        await stream.read(1 << 20)
    await Member()(stream)


async def test_server_without_tls_is_reached_by_default(tmp_path: Path, issued: Issued) -> None:
    member, targets = Member(), MongodbTargets(ANYTHING)
    async with serving(member) as ports:
        for _ in range(2):
            (await dial({"HOST": f"localhost:{ports[0]}"}, targets=targets)).stream.close()
        assert member.asked == 3  # what it has is remembered
    async with serving(silent_before_tls) as ports:
        (await dial({"HOST": f"localhost:{ports[0]}"}, timeout=2.0)).stream.close()
    secured = Member()
    async with serving(secured, context=server_tls(issued, tmp_path)) as ports:
        (await dial({"HOST": f"localhost:{ports[0]}"}, targets=targets)).stream.close()
    assert secured.asked == 1


@pytest.mark.parametrize("sslmode", ["require", "verify-ca", "verify-full"])
async def test_tls_begins_without_negotiation(sslmode: str, tmp_path: Path, issued: Issued) -> None:
    async with serving(Member(), context=server_tls(issued, tmp_path)) as ports:
        values = {"HOST": "localhost", "PORT": str(ports[0]), "SSLMODE": sslmode, "SSLROOTCERT": issued.authority}
        (await dial(values)).stream.close()


async def test_certificate_that_does_not_fit_is_refused(tmp_path: Path, issued: Issued) -> None:
    async with serving(Member(), context=server_tls(issued, tmp_path)) as ports:
        values = {"HOST": "127.0.0.1", "PORT": str(ports[0]), "SSLMODE": "verify-full", "SSLROOTCERT": issued.authority}
        with pytest.raises(Unavailable, match="TLS handshake failed"):
            await dial(values)


async def test_server_without_tls_is_refused_where_it_is_required() -> None:
    async with serving(Member()) as ports:
        with pytest.raises(PosternError, match="closed the connection"):
            await dial({"HOST": f"127.0.0.1:{ports[0]}", "SSLMODE": "require"})


async def test_certificate_of_the_gateway_is_presented(tmp_path: Path, issued: Issued) -> None:
    own, member = client_certificate("app"), Member()
    async with serving(member, context=server_tls(issued, tmp_path, client_authority=own.authority)) as ports:
        values = {
            "HOST": f"localhost:{ports[0]}",
            "SSLMODE": "verify-full",
            "SSLROOTCERT": issued.authority,
            "SSLCERT": own.certificate.decode(),
            "SSLKEY": own.key.decode(),
            "MECHANISM": "MONGODB-X509",
        }
        (await dial(values)).stream.close()
    assert member.commands[1] == {"authenticate": 1, "mechanism": "MONGODB-X509", "$db": "$external"}


async def test_key_that_is_not_valid_is_an_error_without_a_quote() -> None:
    values = {"HOST": "localhost:1", "SSLMODE": "require", "SSLCERT": "planted", "SSLKEY": "planted"}
    async with serving(Member()) as ports:
        values["HOST"] = f"localhost:{ports[0]}"
        with pytest.raises(Unavailable, match="must be PEM texts") as failed:
            await dial(values)
    assert "planted" not in failed.value.message


def options(values: Mapping[str, str], uri: ConnectionString | None = None) -> MongodbTargetOptions:
    env = {name: Secret(value) for name, value in values.items()}
    return read_options("orders", env, uri or ConnectionString(), "shop", KeyCache())


def test_keys_are_read() -> None:
    read = options(
        {
            "HOST": "db1, db2:27018,[2001:db8::1]:27019,2001:db8::2",
            "PORT": "27020",
            "USER": "ann",
            "PASS": "pw",
            "DB": "shop",
            "AUTHSOURCE": "users",
            "MECHANISM": "scram-sha-1",
            "SSLMODE": "verify-ca",
            "SSLROOTCERT": "pem",
        }
    )
    assert read.seeds == (("db1", 27020), ("db2", 27018), ("2001:db8::1", 27019), ("2001:db8::2", 27020))
    assert read.login == MongodbTargetLogin("ann", Secret("pw"), "users", "SCRAM-SHA-1", "shop")
    assert (read.sslmode, read.root, read.is_verified) == ("verify-ca", "pem", True)


def test_defaults_of_keys() -> None:
    read = options({"HOST": "db"})
    assert read.seeds == (("db", 27017),)
    assert read.login.source == "admin"
    assert not read.login.has_credentials
    assert read.sslmode == "prefer"
    assert options({"HOST": "db", "USER": "ann", "DB": "shop"}).login.source == "admin"
    assert options({"HOST": "db", "USER": "ann", "MECHANISM": "PLAIN"}).login.source == "$external"


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "no secret 'envvar:HOST'"),
        ({"HOST": "db", "PORT": "x"}, "PORT is not a port number"),
        ({"HOST": "db,,db2"}, "HOST must be one or several"),
        ({"HOST": "db:0"}, "HOST must be one or several"),
        ({"HOST": "/tmp/mongodb.sock"}, "HOST must be one or several"),
        ({"HOST": "db", "SSLMODE": "on"}, "SSLMODE must be one of disable"),
        ({"HOST": "db", "MECHANISM": "MONGODB-AWS"}, "MONGODB-AWS is not supported yet; use one of SCRAM-SHA-256"),
        ({"HOST": "db", "MECHANISM": "MONGODB-OIDC"}, "not supported yet"),
        ({"HOST": "db", "MECHANISM": "magic"}, "MECHANISM must be one of SCRAM-SHA-256"),
        ({"HOST": "db", "MECHANISM": "PLAIN"}, "PLAIN needs a USER"),
        ({"HOST": "db", "MECHANISM": "MONGODB-X509", "SSLCERT": "pem"}, "needs SSLCERT, SSLKEY, and an SSLMODE"),
        ({"HOST": "db", "MECHANISM": "MONGODB-X509", "SSLMODE": "require"}, "needs SSLCERT, SSLKEY, and an SSLMODE"),
        ({"HOST": "db", "SSLMODE": "disable", "SSLCERT": "pem"}, "TLS is disabled"),
    ],
)
def test_wrong_keys_are_errors_that_say_what_to_do(values: Mapping[str, str], said: str) -> None:
    with pytest.raises(Unavailable, match="connection 'orders'") as failed:
        options(values)
    assert said in failed.value.message


async def uri_options(uri: str, **values: str) -> MongodbTargetOptions:
    env = {name: Secret(value) for name, value in {"CONNECTION_STRING": uri, **values}.items()}
    parsed = await MongodbTargets(ANYTHING)._connection_string("orders", env)
    return read_options("orders", env, parsed, "", KeyCache())


async def test_connection_string_is_read() -> None:
    read = await uri_options("mongodb://an%40n:p%3Aw@db1,db2:27018/shop?replicaSet=rs0&authMechanism=SCRAM-SHA-1")
    assert read.seeds == (("db1", 27017), ("db2", 27018))
    assert read.login == MongodbTargetLogin("an@n", Secret("p:w"), "shop", "SCRAM-SHA-1")
    assert (read.set_name, read.direct, read.sslmode) == ("rs0", False, "disable")


async def test_keys_override_the_connection_string() -> None:
    read = await uri_options("mongodb://ann@db/?tls=true&authSource=x", PASS="pw", SSLMODE="verify-ca", AUTHSOURCE="y")
    assert read.login == MongodbTargetLogin("ann", Secret("pw"), "y")
    assert read.sslmode == "verify-ca"


@pytest.mark.parametrize(
    ("query", "sslmode"),
    [
        ("", "disable"),
        ("tls=false", "disable"),
        ("tls=true", "verify-full"),
        ("ssl=true", "verify-full"),
        ("tls=true&tlsAllowInvalidHostnames=true", "verify-ca"),
        ("tls=true&tlsAllowInvalidCertificates=true", "require"),
        ("tls=true&tlsInsecure=true", "require"),
    ],
)
async def test_tls_of_a_connection_string_means_what_drivers_mean(query: str, sslmode: str) -> None:
    assert (await uri_options(f"mongodb://ann:pw@db/?{query}")).sslmode == sslmode


@pytest.mark.parametrize(
    ("uri", "said"),
    [
        ("postgres://ann:planted@db", "must be mongodb://"),
        ("mongodb://ann:pla:nted@db", "must be mongodb://"),
        ("mongodb://ann:planted@db/?tls=true&tlsCAFile=/etc/hostname", "SSLROOTCERT"),
        ("mongodb://ann:planted@db/?tls=true&tlsCertificateKeyFile=/etc/hostname", "SSLCERT and SSLKEY"),
        ("mongodb://ann:planted@db/?authMechanism=GSSAPI&authSource=$external", "not supported yet"),
        ("mongodb://%2Ftmp%2Fmongodb.sock/", "HOST"),
    ],
)
async def test_connection_string_that_cannot_be_used_is_an_error_without_a_quote(uri: str, said: str) -> None:
    with pytest.raises(Unavailable) as failed:
        await uri_options(uri)
    assert said in failed.value.message
    assert "planted" not in failed.value.message
    assert "pla:nted" not in failed.value.message


async def test_srv_records_name_the_servers_and_require_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    def resolve(name: str, kind: str, **_: Any) -> Any:
        import dns.message
        import dns.rrset

        asked.append((name, kind))
        if kind == "TXT":
            return dns.rrset.from_text(name, 60, "IN", "TXT", '"authSource=users&replicaSet=rs0"')
        return dns.rrset.from_text(name, 60, "IN", "SRV", "0 5 27018 db1.shop.example.", "0 5 27019 db2.shop.example.")

    class Answer(list[Any]):
        @property
        def rrset(self) -> Any:
            return self

    monkeypatch.setattr("dns.resolver.resolve", lambda name, kind, **more: Answer(resolve(str(name), kind)))
    keys = {"HOST": "cluster.shop.example", "SRV": "true", "USER": "ann"}
    env = {name: Secret(value) for name, value in keys.items()}
    targets = MongodbTargets(LocalPolicy(targets=("db1.shop.example:*",)))
    parsed = await targets._connection_string("orders", env)
    read = read_options("orders", env, parsed, "", KeyCache())
    assert read.seeds == (("db1.shop.example", 27018), ("db2.shop.example", 27019))
    assert (read.sslmode, read.login.source, read.set_name) == ("verify-full", "users", "rs0")
    assert ("_mongodb._tcp.cluster.shop.example", "SRV") in asked


async def test_srv_name_that_cannot_be_resolved_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import dns.resolver

    def resolve(*_: Any, **__: Any) -> Any:
        raise dns.resolver.NXDOMAIN

    monkeypatch.setattr("dns.resolver.resolve", resolve)
    with pytest.raises(Unavailable, match=r"SRV records of _mongodb\._tcp"):
        await uri_options("mongodb+srv://ann:pw@cluster.shop.example/")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("db", ("db", 27017)),
        ("db:1", ("db", 1)),
        ("[::1]", ("::1", 27017)),
        ("[::1]:5", ("::1", 5)),
        ("::1", ("::1", 27017)),
    ],
)
def test_addresses_are_parsed(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":1", "db:", "db:0", "db:65536", "db:1x", "[::1", "[::1]5", "[]:1", "db:-1"])
def test_texts_that_are_no_addresses_are_errors(text: str) -> None:
    with pytest.raises(ValueError, match=r"no (host|port)"):
        parse_address(text)


async def test_cancelling_needs_no_request() -> None:
    await MongodbTargets(ANYTHING).cancel(order(), ResolvedSecrets({}, {}), 0, b"")
    assert asyncio.get_running_loop().is_running()
