"""A gateway whose people log in by SAML, and a browser that goes to the provider and back."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qs, parse_qsl, urlsplit

import httpx
from fastapi import FastAPI
from lxml import etree
from tests.support.application import application
from tests.support.saml_idp import SamlIdp, form_of
from tests.support.world import API_URL, World

from postern.api.info import StaticServerInfo
from postern.domain.identity.auth_config import AuthConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.integrations.identity.fetch import ProviderFetcher
from postern.integrations.identity.saml_adapter import METADATA_DEADLINE, METADATA_LIMIT, SamlAdapter
from postern.services.bundle import Services
from postern.services.identity.logins.saml_login import service_provider
from postern.store.database import Database

INFO = StaticServerInfo("localhost", "wss://localhost:7443", "grpcs://localhost:7444", None)
US = service_provider(API_URL)


@dataclass
class Returning:
    """What the provider's page would send, and the cookies the browser has from the way there."""

    form: dict[str, str]
    cookies: dict[str, str]

    @property
    def document(self) -> etree._Element:
        return etree.fromstring(base64.b64decode(self.form["SAMLResponse"]))

    def carrying(self, document: etree._Element | str | bytes) -> Returning:
        content = etree.tostring(document) if isinstance(document, etree._Element) else document
        encoded = base64.b64encode(content if isinstance(content, bytes) else content.encode()).decode()
        return Returning(self.form | {"SAMLResponse": encoded}, self.cookies)


@dataclass
class SamlGateway:
    world: World
    services: Services
    app: FastAPI
    idp: SamlIdp
    client: httpx.AsyncClient

    @classmethod
    async def make(cls, database: Database, idp: SamlIdp, **config: str) -> SamlGateway:
        """`config` is of SamlConfig; by default the metadata's URL."""
        world = await World.make(database)
        world.clock.now = datetime.now(UTC).replace(microsecond=0)  # the provider's clock is the machine's
        world.saml = SamlAdapter(ProviderFetcher(deadline=METADATA_DEADLINE, limit=METADATA_LIMIT), world.clock)
        services = world.services()
        app = application(services, INFO)
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"{API_URL}/api")
        idp.meet((await client.get("/saml/metadata")).text)
        gateway = cls(world, services, app, idp, client)
        await gateway.configure(**(config or {"idp_metadata_url": f"{idp.url}/metadata"}))
        return gateway

    async def configure(self, **config: str) -> None:
        saml = AuthConfig(LoginMethod.SAML, saml=SamlConfig(**config))
        await self.services.auth_configs.put(self.world.org_id, saml)

    async def begin(self, **parameters: str) -> httpx.Response:
        return await self.client.get("/saml/login", params=parameters)

    async def leave(self, **parameters: str) -> Returning:
        """To the provider, where the person proves who they are."""
        begun = await self.begin(**parameters)
        assert begun.status_code == 200, begun.text
        cookies = dict(self.client.cookies)
        self.client.cookies.clear()
        async with httpx.AsyncClient(verify=False) as browser:  # http on loopback; trust takes long to load
            page = await browser.get(begun.json()["login_url"])
        assert page.status_code == 200, page.text
        return Returning(form_of(page.text), cookies)

    async def back(self, returning: Returning) -> httpx.Response:
        header = "; ".join(f"{name}={value}" for name, value in returning.cookies.items())
        return await self.client.post("/saml/callback", data=returning.form, headers={"Cookie": header})

    async def refused(self, returning: Returning, reason: str) -> None:
        """The browser ends at the web app with `reason`, and nobody's account was made or logged in."""
        answer = await self.back(returning)
        assert answer.status_code == 303, answer.text
        said = dict(parse_qsl(urlsplit(answer.headers["Location"]).query))
        assert reason in said["error_description"], said
        await self.nobody(answer)

    async def forbidden(self, returning: Returning, reason: str) -> None:
        answer = await self.back(returning)
        assert answer.status_code == 403, answer.text
        assert reason in answer.json()["message"]
        await self.nobody(answer)

    async def nobody(self, answer: httpx.Response) -> None:
        assert not any(name.endswith("postern") and value for name, value in answer.cookies.items())
        assert await self.world.stores.principals.count(self.world.org_id) == 0

    async def changed(self, edit: Callable[[etree._Element], None], **parameters: str) -> Returning:
        """A genuine answer with its document changed by whoever carries it."""
        returning = await self.leave(**parameters)
        document = returning.document
        edit(document)
        return returning.carrying(document)


def query_of(answer: httpx.Response) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(answer.headers["Location"]).query).items()}
