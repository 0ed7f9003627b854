"""The port to a SAML library."""

from __future__ import annotations

from typing import Protocol

from postern.domain.identity.auth_config import SamlConfig
from postern.domain.identity.saml import Asserted, SamlLoginRequest, ServiceProvider


class Saml(Protocol):
    async def login_url(self, config: SamlConfig, us: ServiceProvider, request: SamlLoginRequest) -> str:
        """Return where the browser goes with an AuthnRequest (binding HTTP-Redirect). Raises Invalid for unusable
        metadata, Unavailable when it cannot be fetched."""

    async def verify_response(
        self, config: SamlConfig, us: ServiceProvider, request_id: str, response: str
    ) -> Asserted:
        """Return the verified assertion. `response` is Base64, as in the form that the browser sent (binding
        HTTP-POST).

        Raises Denied for the answer to another request, Unauthenticated for any other that does not prove an identity,
        and as `login_url`.
        """

    async def entity_id(self, config: SamlConfig) -> str:
        """Return the identity provider's entity id from its metadata: the check before a configuration is stored.
        Raises as `login_url`."""

    def metadata(self, us: ServiceProvider) -> bytes:
        """Return our metadata, as XML. Raises Unavailable."""
