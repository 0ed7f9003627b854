"""Our API in front of a real OpenID provider, with browsers and command lines that log in."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
from fastapi import FastAPI
from tests.support.application import application
from tests.support.openid import CLIENT_ID, CLIENT_SECRET, SCOPES, OpenIdProvider, openid_provider
from tests.support.world import World

from postern.api.info import StaticServerInfo
from postern.domain.identity.auth_config import AuthConfig, OidcConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.oidc import OpenIdClient
from postern.services.bundle import Services
from postern.store.database import Database

API = "http://localhost:7480"
CALLBACK = f"{API}/api/callback"
INFO = StaticServerInfo("localhost", "wss://localhost:7443", "grpcs://localhost:7444", None)
CLI_LISTENER = "http://127.0.0.1:3587/callback"


def config_of(provider: OpenIdProvider, **changes: Any) -> OidcConfig:
    given: dict[str, Any] = {
        "issuer_url": provider.issuer,
        "client_id": CLIENT_ID,
        "client_secret": Secret(CLIENT_SECRET),
        "scopes": tuple(SCOPES),
    }
    return OidcConfig(**(given | changes))


@dataclass
class Site:
    world: World
    services: Services
    app: FastAPI
    provider: OpenIdProvider
    verifiers: dict[str, str] = field(default_factory=dict)

    async def configure(self, **changes: Any) -> None:
        config = AuthConfig(LoginMethod.OIDC, oidc=config_of(self.provider, **changes))
        await self.services.auth_configs.put(self.world.org_id, config)

    def client(self, token: str | None = None) -> httpx.AsyncClient:
        """One jar of cookies, as a browser has."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url=f"{API}/api", headers=headers)

    async def at_provider(self, login_url: str) -> str:
        """Goes where the gateway sends a browser; answers where the provider sends it back to."""
        async with httpx.AsyncClient(verify=False) as outside:  # http on loopback; trust takes long to load
            answer = await outside.get(login_url)
        assert answer.status_code == 302, answer.text
        return answer.headers["location"]

    async def browser(self, redirect: str = "/sessions") -> tuple[httpx.AsyncClient, httpx.Response]:
        """A browser that went all the way, and the last answer it had."""
        page = self.client()
        started = await page.get("/login", params={"redirect": redirect})
        assert started.status_code == 200, started.text
        return page, await page.get(await self.at_provider(started.json()["login_url"]))

    async def begin_cli(self) -> tuple[str, str]:
        """(login_url, verifier)"""
        verifier = secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        params = {"redirect": CLI_LISTENER, "code_challenge": challenge}
        started = await self.client().get("/login", params=params)
        assert started.status_code == 200, started.text
        assert "set-cookie" not in started.headers
        return started.json()["login_url"], verifier

    async def cli_code(self) -> tuple[dict[str, str], str]:
        """What the listener of a command line hears, and the verifier."""
        login_url, verifier = await self.begin_cli()
        landed = await self.client().get(await self.at_provider(login_url))
        assert landed.status_code == 303, landed.text
        assert landed.headers["location"].startswith(CLI_LISTENER + "?")
        return query_of(landed.headers["location"]), verifier

    async def cli(self) -> httpx.AsyncClient:
        """A command line that is logged in."""
        heard, verifier = await self.cli_code()
        body = {"code": heard["code"], "code_verifier": verifier}
        answer = await self.client().post("/login/exchange", json=body)
        assert answer.status_code == 200, answer.text
        return self.client(answer.headers["token"])


async def make_site(database: Database, provider: OpenIdProvider, fetcher: ProviderFetcher | None = None) -> Site:
    world = await World.make(database)
    world.clock.now = datetime.now(UTC)  # the provider has a clock of its own
    world.openid = OpenIdClient(fetcher or ProviderFetcher(), world.clock)
    services = world.services()
    site = Site(world, services, application(services, INFO), provider)
    await site.configure()
    return site


@contextmanager
def provider_for_site(**settings: Any) -> Iterator[OpenIdProvider]:
    with openid_provider(CALLBACK, **settings) as provider:
        yield provider


def query_of(url: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
