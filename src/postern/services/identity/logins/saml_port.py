"""What services need of a SAML library."""

from __future__ import annotations

from typing import Protocol

from postern.domain.identity.auth_config import SamlConfig
from postern.domain.identity.saml import Asserted, SamlLoginRequest, ServiceProvider


class Saml(Protocol):
    async def login_url(self, config: SamlConfig, us: ServiceProvider, request: SamlLoginRequest) -> str:
        """Where the browser goes with an AuthnRequest (binding HTTP-Redirect). Raises Invalid for metadata that
        cannot be used, Unavailable when it cannot be fetched."""

    async def verify_response(
        self, config: SamlConfig, us: ServiceProvider, request_id: str, response: str
    ) -> Asserted:
        """`response` is Base64, as in the form that the browser sent (binding HTTP-POST). Raises Denied for the
        answer to another request, Unauthenticated for any other that does not prove who somebody is, and as
        `login_url`."""

    async def entity_id(self, config: SamlConfig) -> str:
        """The identity provider's, from its metadata: the check before a configuration is stored. Raises as
        `login_url`."""

    def metadata(self, us: ServiceProvider) -> bytes:
        """Ours, as XML. Raises Unavailable."""
