"""All providers by the names that references call them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from postern.domain.reference import CLOUD, Reference
from postern.domain.secret import Secret
from postern.errors import Misconfigured, PosternError, Unavailable
from postern.integrations.secrets.env_json import EnvironmentSecrets
from postern.integrations.secrets.secret_cache import Cached
from postern.integrations.secrets.source import SecretSource

Environment = Mapping[str, str]


def _aws(environ: Environment) -> SecretSource:
    from postern.integrations.secrets.aws import AwsSecrets

    return AwsSecrets(environ)


def _azure(environ: Environment) -> SecretSource:
    from postern.integrations.secrets.azure import AzureSecrets

    return AzureSecrets(environ)


def _gcp(environ: Environment) -> SecretSource:
    from postern.integrations.secrets.gcp import GoogleSecrets

    return GoogleSecrets(environ)


def _vault(version: int) -> Callable[[Environment], SecretSource]:
    def make(environ: Environment) -> SecretSource:
        from postern.integrations.secrets.secret_vault import VaultSecrets

        return VaultSecrets(environ, version)

    return make


_KINDS: dict[str, Callable[[Environment], SecretSource]] = {
    "_aws": _aws,
    "_azure": _azure,
    "_gcp": _gcp,
    "_vaultkv1": _vault(1),
    "_vaultkv2": _vault(2),
}
CLOUDS = ("aws", "azure", "gcp")
_LIBRARIES = {"_aws": "boto3", "_azure": "azure-identity", "_gcp": "google-auth[requests]"}


class Sources:
    """`environ` is what `_envjson` looks into, and where the providers' own settings are (`VAULT_ADDR` and so on);
    `cloud` what `_cloudprov` means; `shows` says which variables may be referred to. Raises Misconfigured."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        cloud: str = "aws",
        shows: Callable[[str], bool] = lambda _variable: True,
    ) -> None:
        if cloud not in CLOUDS:
            raise Misconfigured(
                f"POSTERN_CLOUD_PROVIDER: {cloud!r} is not known; use one of {', '.join(CLOUDS)}",
                field="cloud_provider",
            )
        self._environ = environ
        self._shown = {name: value for name, value in environ.items() if shows(name)}
        self._cloud = f"_{cloud}"
        self._sources: dict[str, Cached] = {}
        self._making = asyncio.Lock()

    async def value(self, reference: Reference) -> Secret:
        """Raises Unavailable, which names the reference and the reason, and never a value."""
        try:
            source = await self._source(reference.provider)
            document = await source.fetch(reference.name)
            return document.value(reference.key)
        except PosternError as problem:
            reason = problem.message
        raise Unavailable(f"{reference} cannot be resolved: {reason}")

    def forget(self, reference: Reference) -> None:
        """What is kept of it did not work: a value that was changed at its source is asked for at once."""
        source = self._sources.get(self._kind(reference.provider))
        if source is not None:
            source.forget(reference.name)

    def _kind(self, provider: str) -> str:
        return self._cloud if provider == CLOUD else provider

    async def _source(self, provider: str) -> Cached:
        kind = self._kind(provider)
        async with self._making:
            if kind not in self._sources:
                # Importing a provider's library takes a good part of a second.
                self._sources[kind] = Cached(await asyncio.to_thread(self._make, kind))
            return self._sources[kind]

    def _make(self, kind: str) -> SecretSource:
        if kind == "_envjson":
            return EnvironmentSecrets(self._shown)
        try:
            return _KINDS[kind](self._environ)
        except ImportError:
            needed = f"pip install '{_LIBRARIES[kind]}'"
            raise Unavailable(f"the agent lacks a library; run: {needed} where it runs") from None
