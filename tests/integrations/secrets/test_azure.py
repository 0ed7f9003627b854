from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.support.clouds import AzureDouble

from postern.errors import Unavailable
from postern.integrations.secrets.azure import AzureSecrets, scope_of

VALUE = "correct horse"
KEPT = {"db": '{"password": "correct horse"}', "db/4387e9f3": "an older one", "forbidden": "x", "huge": "x" * 300_000}


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    double = AzureDouble(KEPT, "https://vault.example")
    # Here the vault is an address of loopback, from which no domain can be read.
    monkeypatch.setattr("postern.integrations.secrets.azure.scope_of", lambda _vault: "https://vault.example/.default")
    with double.serve() as url:
        found = double.environment(url)
        for name, value in found.items():
            monkeypatch.setenv(name, value)
        yield found


def fetch(environ: dict[str, str], name: str, key: str = "") -> str:
    return asyncio.run(AzureSecrets(environ).fetch(name)).value(key).reveal()


def test_secret_is_found_by_name_and_by_version(environ: dict[str, str]) -> None:
    assert fetch(environ, "db", "password") == VALUE
    assert fetch(environ, "db/4387e9f3") == "an older one"


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("none", "SecretNotFound"),
        ("forbidden", "Forbidden"),
        ("huge", "larger than"),
        ("../keys/k", "is named SECRET"),
        ("db?x=1", "is named SECRET"),
    ],
)
def test_secret_that_cannot_be_read_is_a_clear_error(environ: dict[str, str], name: str, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason) as caught:
        fetch(environ, name)
    assert "planted" not in caught.value.message


def test_rejected_identity_is_reported(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IDENTITY_HEADER", "wrong")
    with pytest.raises(Unavailable, match="issued no token to the agent"):
        fetch(environ, "db")


@pytest.mark.parametrize("url", ["", "http://shop.vault.azure.net", "https://a:b@shop.vault.azure.net"])
def test_vault_address_must_be_https(url: str) -> None:
    with pytest.raises(Unavailable, match="AZURE_KEYVAULT_URL"):
        AzureSecrets({"AZURE_KEYVAULT_URL": url})


def test_token_scope_matches_the_cloud_of_the_vault() -> None:
    assert scope_of("https://shop.vault.azure.net") == "https://vault.azure.net/.default"
    assert scope_of("https://shop.vault.usgovcloudapi.net") == "https://vault.usgovcloudapi.net/.default"
