"""All providers of secrets by the name that references use, with a short cache for many sessions that open at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from postern.domain.reference import CLOUD, Reference
from postern.domain.secret import Secret
from postern.errors import Misconfigured, PosternError, Unavailable
from postern.integrations.secrets.env_json import EnvironmentSecrets
from postern.integrations.secrets.login_tokens import (
    AwsLoginTokens,
    AzureLoginTokens,
    GoogleLoginTokens,
    LoginTokens,
    TokenTarget,
)
from postern.integrations.secrets.source import DEADLINE, Document, SecretSource

T = TypeVar("T")

LIFE = 20.0  # seconds since the request; a changed value is used no longer than that
MOST = 256  # documents


class CachedSource:
    """A cache before a source: one request answers all concurrent callers. Errors are not cached."""

    def __init__(
        self, source: SecretSource, *, life: float = LIFE, most: int = MOST, deadline: float = DEADLINE
    ) -> None:
        self._source = source
        self._life = life
        self._most = most
        self._deadline = deadline
        self._kept: dict[str, tuple[Document, float, asyncio.TimerHandle]] = {}
        self._asked: dict[str, asyncio.Task[Document]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    async def fetch(self, name: str) -> Document:
        entry = self._kept.get(name)
        if entry is not None and asyncio.get_running_loop().time() < entry[1]:
            return entry[0]
        task = self._asked.get(name)
        if task is None:
            task = asyncio.create_task(self._ask(name))
            self._asked[name] = task
            task.add_done_callback(partial(self._forget_task, name))
        return await asyncio.shield(task)  # a cancelled caller does not cancel the request for others

    def forget(self, name: str) -> None:
        """Drop a value that did not work; the next caller asks the source."""
        entry = self._kept.pop(name, None)
        if entry is not None:
            entry[2].cancel()

    async def _ask(self, name: str) -> Document:
        loop = asyncio.get_running_loop()
        until = loop.time() + self._life
        try:
            async with asyncio.timeout(self._deadline):
                document = await self._source.fetch(name)
        except TimeoutError:
            raise Unavailable(f"there was no answer within {self._deadline:g} seconds") from None
        self.forget(name)
        while len(self._kept) >= self._most:
            self.forget(next(iter(self._kept)))
        self._kept[name] = document, until, loop.call_at(until, self.forget, name)
        return document

    def _forget_task(self, name: str, task: asyncio.Task[Document]) -> None:
        if self._asked.get(name) is task:
            del self._asked[name]
        if not task.cancelled():
            task.exception()  # retrieved, even if all callers have gone


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
_LOGIN_TOKENS: dict[str, Callable[[Environment], LoginTokens]] = {
    "aws": AwsLoginTokens,
    "azure": lambda _environ: AzureLoginTokens(),
    "gcp": lambda _environ: GoogleLoginTokens(),
}


class Sources:
    """The providers. `environ` is read by `_envjson`, and has the providers' own settings (`VAULT_ADDR` and so on);
    `cloud` selects the provider of `_cloudprov`; `shows` limits the variables. Raises Misconfigured."""

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
        self._sources: dict[str, CachedSource] = {}
        self._login_tokens: dict[str, LoginTokens] = {}
        self._making = asyncio.Lock()

    async def value(self, reference: Reference) -> Secret:
        """Resolve a reference. Raises Unavailable, which names the reference and the reason, and never a value."""
        try:
            source = await self._source(reference.provider)
            document = await source.fetch(reference.name)
            return document.value(reference.key)
        except PosternError as problem:
            reason = problem.message
        raise Unavailable(f"{reference} cannot be resolved: {reason}")

    async def login_token(self, reference: Reference, target: TokenTarget) -> Secret:
        """Return a token with which the agent's identity logs in to the target. Raises Unavailable, as `value`."""
        try:
            tokens = await self._tokens_of(reference.name)
            async with asyncio.timeout(DEADLINE):
                return await tokens.issue(target, reference.key)
        except TimeoutError:
            reason = f"there was no answer within {DEADLINE:g} seconds"
        except PosternError as problem:
            reason = problem.message
        raise Unavailable(f"{reference} cannot be resolved: {reason}")

    async def _tokens_of(self, cloud: str) -> LoginTokens:
        async with self._making:
            if cloud not in self._login_tokens:
                make = partial(_LOGIN_TOKENS[cloud], self._environ)
                self._login_tokens[cloud] = await asyncio.to_thread(_with_library, f"_{cloud}", make)
            return self._login_tokens[cloud]

    def forget(self, reference: Reference) -> None:
        """Drop the cached value: it did not work, and may have changed at its source."""
        source = self._sources.get(self._kind(reference.provider))
        if source is not None:
            source.forget(reference.name)

    def _kind(self, provider: str) -> str:
        return self._cloud if provider == CLOUD else provider

    async def _source(self, provider: str) -> CachedSource:
        kind = self._kind(provider)
        async with self._making:
            if kind not in self._sources:
                # Importing a provider's library takes a considerable part of a second.
                self._sources[kind] = CachedSource(await asyncio.to_thread(self._make, kind))
            return self._sources[kind]

    def _make(self, kind: str) -> SecretSource:
        if kind == "_envjson":
            return EnvironmentSecrets(self._shown)
        return _with_library(kind, partial(_KINDS[kind], self._environ))


def _with_library(kind: str, make: Callable[[], T]) -> T:
    """Return what `make` makes. Raises Unavailable with the name of a missing library."""
    try:
        return make()
    except ImportError:
        needed = f"pip install '{_LIBRARIES[kind]}'"
        raise Unavailable(f"the agent lacks a Python library; where it runs, run: {needed}") from None
