"""Azure Key Vault: `_azure:NAME:KEY`, or `_azure:NAME/VERSION:KEY` for another than the latest version.

`AZURE_KEYVAULT_URL` names the vault. Needs the role Key Vault Secrets User. Credentials are found by azure-identity:
`AZURE_CLIENT_ID` with a secret, a certificate or a federated token, or a managed identity.

Source: Key Vault REST API, "Get Secret", version 7.4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError
from azure.identity import DefaultAzureCredential

from postern.errors import Unavailable
from postern.integrations.secrets import rest
from postern.integrations.secrets.source import Document, Threads, checked_text

API_VERSION = "7.4"
_NAME = re.compile(r"[0-9A-Za-z-]{1,127}(?:/[0-9A-Za-z]{1,64})?")
_TIMEOUT = 3.0  # seconds, of each request for a token
# An agent must not use the credentials of a user of the machine.
_NOBODYS = {
    f"exclude_{kind}_credential": True
    for kind in ("cli", "developer_cli", "powershell", "interactive_browser", "shared_token_cache", "broker")
} | {"exclude_visual_studio_code_credential": True}


class AzureAccessTokens:
    """Access tokens of the agent's identity for one scope; azure-identity caches them."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._credential = DefaultAzureCredential(
            connection_timeout=_TIMEOUT, read_timeout=_TIMEOUT, retry_total=1, **_NOBODYS
        )
        self._threads = Threads(most=1)

    async def get(self) -> str:
        """Raises Unavailable."""
        return await self._threads.run(self._get)

    def _get(self) -> str:
        try:
            token: str = self._credential.get_token(self._scope).token
        except (AzureError, OSError, ValueError) as error:
            raise Unavailable(f"Azure issued no token to the agent: {type(error).__name__}") from None
        return token


class AzureSecrets:
    """The source. Raises Unavailable when a setting is missing or wrong."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._vault = rest.checked_address(environ.get("AZURE_KEYVAULT_URL", ""), "AZURE_KEYVAULT_URL")
        self._tokens = AzureAccessTokens(scope_of(self._vault))

    async def fetch(self, name: str) -> Document:
        if not _NAME.fullmatch(name):
            raise Unavailable("an Azure secret is named SECRET or SECRET/VERSION, with letters, digits and '-'")
        token = await self._tokens.get()
        url = f"{self._vault}/secrets/{name}?api-version={API_VERSION}"
        answer = await rest.ask("GET", url, {"Authorization": f"Bearer {token}"})
        if answer.status != 200:
            raise Unavailable(_refusal(answer))
        value = answer.fields.get("value")
        if not isinstance(value, str):
            raise Unavailable("Azure Key Vault did not answer with a secret")
        return Document(checked_text(value.encode()))


def scope_of(vault: str) -> str:
    """Return the scope of tokens. A vault's host is its name and its cloud's domain, which is the scope."""
    domain = (urlsplit(vault).hostname or "").partition(".")[2]
    return f"https://{domain}/.default"


def _refusal(answer: rest.SecretServiceResponse) -> str:
    error: Any = answer.fields.get("error")
    code = error.get("code") if isinstance(error, Mapping) else None
    named = f" {code}" if isinstance(code, str) and re.fullmatch(r"[A-Za-z]{1,64}", code) else ""
    return f"Azure Key Vault answered{named} ({answer.status})"
