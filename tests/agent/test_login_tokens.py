"""Targets that take a login token of the agent's cloud identity instead of a password."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.agent.test_secrets import encoded, order
from tests.support.certificates import Issued, issue
from tests.support.cloud_databases import CloudDatabase, rds_token_is_valid
from tests.support.clouds import AzureDouble, GoogleDouble
from tests.support.postgres import PostgresServer

from postern.agent.agent_policy import LocalPolicy, ReferencePattern
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import Resolver
from postern.agent.target_dialer import TargetDialer
from postern.domain.reference import Reference
from postern.domain.targets.connection import check_secret
from postern.errors import Denied, Invalid, Unavailable
from postern.integrations.secrets.login_tokens import AZURE_SCOPE, GOOGLE_SCOPE, region_of
from postern.integrations.secrets.sources import Sources
from postern.protocols.gateway_queries import TargetRefused
from postern.relay.orders import Order

USER, REGION = "postgres", "eu-central-1"
AWS = {"AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "planted-secret", "AWS_REGION": REGION}
CLOUDS = ("aws", "azure", "gcp")


@pytest.fixture(scope="module")
def issued() -> Issued:
    return issue("localhost", "127.0.0.1")


@dataclass
class Cloud:
    """A database of one cloud, and the environment of an agent with an identity there."""

    database: CloudDatabase
    environ: Mapping[str, str]

    def dialer(self, policy: LocalPolicy | None = None) -> TargetDialer:
        resolver = Resolver(Sources(self.environ), SecretFiles({}), *([policy] if policy else []))
        return TargetDialer(resolver)

    def order(self, reference: str, **changes: str) -> Order:
        values = {
            "HOST": "localhost",
            "PORT": str(self.database.port),
            "USER": USER,
            "SSLMODE": "verify-full",
            "SSLROOTCERT": self.database.issued.authority,
        }
        kept = {f"envvar:{name}": encoded(value.encode()) for name, value in (values | changes).items() if value}
        return order(kept | {"envvar:PASS": reference})


def _aws(stack: ExitStack, folder: Path, environ: dict[str, str], database: CloudDatabase) -> None:
    environ.update(AWS)
    database.verify = lambda user, token: rds_token_is_valid(
        token,
        host="localhost",
        port=database.port,
        user=user,
        region=REGION,
        key_id=AWS["AWS_ACCESS_KEY_ID"],
        secret=AWS["AWS_SECRET_ACCESS_KEY"],
    )


def _azure(stack: ExitStack, folder: Path, environ: dict[str, str], database: CloudDatabase) -> None:
    double = AzureDouble({}, AZURE_SCOPE.removesuffix("/.default"))
    environ.update(double.environment(stack.enter_context(double.serve())))
    database.verify = lambda _user, token: double.knows(token)


def _gcp(stack: ExitStack, folder: Path, environ: dict[str, str], database: CloudDatabase) -> None:
    double = GoogleDouble({}, GOOGLE_SCOPE)
    stack.enter_context(double.serve())
    environ["GOOGLE_APPLICATION_CREDENTIALS"] = str(double.key_file(folder))
    database.verify = lambda _user, token: double.knows(token)


SETUPS: Mapping[str, Callable[[ExitStack, Path, dict[str, str], CloudDatabase], None]] = {
    "aws": _aws,
    "azure": _azure,
    "gcp": _gcp,
}


@pytest.fixture(params=CLOUDS)
def cloud(
    request: pytest.FixtureRequest, postgres_server: PostgresServer, issued: Issued, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[str, Cloud]]:
    for name in ("AWS_PROFILE", "AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "IDENTITY_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        database, environ = CloudDatabase(postgres_server, lambda _user, _token: False, issued), dict[str, str]()
        SETUPS[request.param](stack, folder, environ, database)
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        stack.enter_context(database.serve(folder))
        yield request.param, Cloud(database, environ)


async def test_identity_of_each_cloud_logs_in_without_a_password(cloud: tuple[str, Cloud]) -> None:
    name, site = cloud
    target = await site.dialer().dial(site.order(f"_identity:{name}:"))
    assert "server_version" in target.parameters
    target.stream.close()
    [token] = site.database.tokens
    assert token


@pytest.mark.parametrize("mode", ["", "disable", "prefer", "require"])
async def test_token_is_never_sent_without_a_verified_certificate(cloud: tuple[str, Cloud], mode: str) -> None:
    name, site = cloud
    with pytest.raises(Unavailable, match="SSLMODE verify-full"):
        await site.dialer().dial(site.order(f"_identity:{name}:", SSLMODE=mode))
    assert site.database.tokens == []


async def test_attack_target_with_a_foreign_certificate_gets_no_token(cloud: tuple[str, Cloud]) -> None:
    name, site = cloud
    with pytest.raises((Unavailable, ConnectionError)):
        await site.dialer().dial(site.order(f"_identity:{name}:", SSLROOTCERT=issue("localhost").authority))
    assert site.database.tokens == []


async def test_policy_of_the_agent_limits_its_identity(cloud: tuple[str, Cloud]) -> None:
    name, site = cloud
    policy = LocalPolicy(references=(ReferencePattern.read("_vaultkv2:kv/*"),))
    with pytest.raises(Denied, match="the agent's policy does not allow"):
        await site.dialer(policy).dial(site.order(f"_identity:{name}:"))
    assert site.database.tokens == []


async def test_token_for_a_different_user_is_rejected(cloud: tuple[str, Cloud]) -> None:
    name, site = cloud
    site.database.verify = lambda user, _token: user == "nobody"
    with pytest.raises(TargetRefused, match="authentication failed"):
        await site.dialer().dial(site.order(f"_identity:{name}:"))


async def test_missing_identity_is_a_clear_error(cloud: tuple[str, Cloud], monkeypatch: pytest.MonkeyPatch) -> None:
    name, site = cloud
    for variable in site.environ:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("AZURE_TOKEN_CREDENTIALS", "EnvironmentCredential")
    site.environ = {"AWS_REGION": REGION}
    with pytest.raises(Unavailable, match=rf"secret PASS: _identity:{name}: cannot be resolved: ") as caught:
        await site.dialer().dial(site.order(f"_identity:{name}:"))
    assert "planted" not in caught.value.message


@pytest.mark.parametrize(
    "secret",
    [
        {"envvar:USER": "_identity:aws:"},
        {"filesystem:PASS": "_identity:aws:"},
        {"envvar:PASS": "_identity:oracle:"},
        {"envvar:PASS": "_identity:azure:eu"},
        {"envvar:PASS": "_identity:aws"},
        {"envvar:PASS": "_identity::"},
    ],
)
async def test_other_uses_of_an_identity_are_rejected(secret: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        check_secret(secret)
    values = {name: encoded(b"x") for name in ("envvar:HOST", "envvar:USER") if name not in secret}
    mode = {"envvar:SSLMODE": encoded(b"verify-full")}
    with pytest.raises(Unavailable):
        await Resolver(Sources({}), SecretFiles({})).resolve(order(values | mode | secret))


async def test_command_gets_no_token(tmp_path: Path) -> None:
    resolver = Resolver(Sources(AWS), SecretFiles({}))
    with pytest.raises(Unavailable, match="only databases with a protocol of their own"):
        await resolver.resolve(order({"envvar:PASS": "_identity:aws:"}, subtype="custom"))


@pytest.mark.parametrize(
    ("host", "region"),
    [
        ("shop.abc123.eu-central-1.rds.amazonaws.com", "eu-central-1"),
        ("shop.cluster-abc.us-gov-west-1.rds.amazonaws.com.", "us-gov-west-1"),
        ("shop.abc.cn-north-1.rds.amazonaws.com.cn", "cn-north-1"),
        ("shop.abc.eu-central-1.rds.amazonaws.com.evil.example", ""),
        ("localhost", ""),
    ],
)
def test_region_is_that_of_the_endpoint(host: str, region: str) -> None:
    assert region_of(host) == region


def test_reference_is_written_as_it_is_read() -> None:
    for text in ("_identity:aws:", "_identity:aws:eu-central-1", "_identity:azure:", "_identity:gcp:"):
        assert str(Reference.read(text)) == text
