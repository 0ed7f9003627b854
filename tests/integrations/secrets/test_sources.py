from __future__ import annotations

import asyncio
import json
import re
import sys

import pytest
from tests.support.aws import secrets_manager
from tests.support.vault import ROOT, VaultDouble

from postern.domain.reference import IDENTITY, IDENTITY_CLOUDS, PROVIDERS, Reference
from postern.domain.secret import Secret
from postern.errors import Misconfigured, Unavailable
from postern.integrations.secrets import sources as module
from postern.integrations.secrets.source import Document
from postern.integrations.secrets.sources import Sources

VALUE = "correct horse"
ENVIRON = {"SHOP": json.dumps({"password": VALUE, "port": 5432, "none": None}), "PLAIN": VALUE, "LIST": f'["{VALUE}"]'}


def value(sources: Sources, reference: str) -> str:
    return asyncio.run(sources.value(Reference.read(reference))).reveal()


def test_json_variable_of_the_environment_is_read() -> None:
    assert value(Sources(ENVIRON), "_envjson:SHOP:password") == VALUE
    assert value(Sources(ENVIRON), "_envjson:SHOP:port") == "5432"


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("_envjson:NONE:password", "the agent's environment has no 'NONE'"),
        ("_envjson:SHOP:user", "it has no key 'user'"),
        ("_envjson:SHOP:none", "it has no key 'none'"),
        ("_envjson:PLAIN:password", "it is not a JSON object"),
        ("_envjson:LIST:password", "it is not a JSON object"),
        ("_vaultkv2:kv/db:password", "VAULT_ADDR"),
        ("_azure:db:password", "AZURE_KEYVAULT_URL"),
    ],
)
def test_error_names_the_reference_and_the_reason_and_never_the_value(reference: str, reason: str) -> None:
    with pytest.raises(Unavailable) as caught:
        value(Sources(ENVIRON), reference)
    assert caught.value.message.startswith(f"{reference} cannot be resolved: ")
    assert reason in caught.value.message
    error: BaseException | None = caught.value
    while error is not None:  # nor what a traceback would show
        assert VALUE not in repr(error)
        assert VALUE not in str(vars(error))
        error = error.__context__


@pytest.mark.parametrize("name", ["POSTERN_OIDC_CLIENT_SECRET", "postern_key", "OTEL_EXPORTER_OTLP_HEADERS"])
def test_attack_gateway_settings_cannot_be_referred_to(name: str) -> None:
    with pytest.raises(Unavailable, match="has no"):
        value(Sources({name: '{"a": "b"}'}), f"_envjson:{name}:a")


def test_agent_policy_limits_variables_but_not_the_settings_of_secret_stores() -> None:
    double = VaultDouble(kept={"kv2/db": {"password": VALUE}})
    with double.serve() as address:
        environ = ENVIRON | {"VAULT_ADDR": address, "VAULT_TOKEN": ROOT}
        sources = Sources(environ, shows=lambda name: name == "OTHER")
        with pytest.raises(Unavailable, match="has no 'SHOP'"):
            value(sources, "_envjson:SHOP:password")
        assert value(sources, "_vaultkv2:kv2/db:password") == VALUE


def test_unknown_cloud_provider_is_misconfigured() -> None:
    with pytest.raises(Misconfigured, match="aws, azure, gcp"):
        Sources({}, cloud="oracle")


@pytest.mark.parametrize("cloud", module.CLOUDS)
def test_cloudprov_reference_uses_the_agents_cloud_provider(cloud: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Fixed:
        async def fetch(self, name: str) -> Document:
            return Document(Secret(json.dumps({"key": f"{cloud} {name}"})))

    monkeypatch.setitem(module._KINDS, f"_{cloud}", lambda _environ: Fixed())
    assert value(Sources({}, cloud=cloud), "_cloudprov:shop:key") == f"{cloud} shop"


def test_each_provider_has_a_source() -> None:
    assert set(module._KINDS) | {"_cloudprov", "_envjson", IDENTITY} == set(PROVIDERS)
    assert set(module._LOGIN_TOKENS) == set(IDENTITY_CLOUDS)


@pytest.mark.parametrize(
    ("cloud", "library", "package"),
    [
        ("aws", "boto3", "boto3"),
        ("gcp", "google.auth", "google-auth[requests]"),
        ("azure", "azure.identity", "azure-identity"),
    ],
)
def test_missing_library_is_named_with_its_install_command(
    cloud: str, library: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = f"_{cloud}:a:b"
    monkeypatch.delitem(sys.modules, f"postern.integrations.secrets.{cloud}", raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(Unavailable, match=re.escape(f"pip install '{package}'")):
        value(Sources({}), reference)


@pytest.mark.ci
def test_concurrent_sessions_read_their_secrets_from_aws(monkeypatch: pytest.MonkeyPatch) -> None:
    with secrets_manager() as manager:
        for name, setting in manager.environment.items():
            monkeypatch.setenv(name, setting)
        manager.keep("shop", {"user": "ann", "password": VALUE})
        sources = Sources(manager.environment)

        async def run() -> list[Secret]:
            keys = ["user", "password"] * 50
            return list(await asyncio.gather(*(sources.value(Reference("_cloudprov", "shop", key)) for key in keys)))

        assert [found.reveal() for found in asyncio.run(run())] == ["ann", VALUE] * 50


def test_forgotten_value_is_requested_again() -> None:
    double = VaultDouble(kept={"kv2/db": {"password": "old"}})
    with double.serve() as address:
        sources = Sources({"VAULT_ADDR": address, "VAULT_TOKEN": ROOT})
        reference = Reference.read("_vaultkv2:kv2/db:password")

        async def run() -> list[str]:
            found = [(await sources.value(reference)).reveal()]
            double.kept["kv2/db"] = {"password": "new"}
            found.append((await sources.value(reference)).reveal())
            sources.forget(reference)
            return [*found, (await sources.value(reference)).reveal()]

        assert asyncio.run(run()) == ["old", "old", "new"]
