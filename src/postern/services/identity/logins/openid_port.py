"""The port to an OpenID Connect client, and the provider of an organisation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from uuid import UUID

from postern.domain.identity.auth_config import OidcConfig
from postern.domain.identity.federation import FederationRule
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.openid import Begun, Granted
from postern.domain.secret import Secret
from postern.services.server.auth_configs import AuthConfigs


class OpenId(Protocol):
    async def begin(
        self, config: OidcConfig, *, redirect_uri: str, state: Secret, prompt: str = "", screen_hint: str = ""
    ) -> Begun:
        """Start a login. Raises Invalid, Unavailable."""

    async def finish(
        self, config: OidcConfig, begun: Begun, *, redirect_uri: str, code: str, issuer: str | None
    ) -> Granted:
        """Finish a login. `issuer` is the answer's `iss`. Raises Unauthenticated, Invalid, Unavailable."""

    async def renew(self, config: OidcConfig, refresh: Secret, subject: str) -> Granted:
        """Ask again about a user. Raises Unauthenticated when the provider no longer confirms them, Invalid,
        Unavailable."""

    async def subject_of(self, config: OidcConfig, token: Secret) -> str:
        """Return the subject of an access token. Raises Unauthenticated, Invalid, Unavailable."""

    async def claims_of(self, rule: FederationRule, token: Secret) -> Mapping[str, Any]:
        """Return the claims of a token that the rule's issuer signed for its audience, and for no other. Raises
        Unauthenticated, Invalid, Unavailable."""


async def provider_of(configs: AuthConfigs, org_id: UUID) -> OidcConfig | None:
    """Return the provider's configuration; None where users log in otherwise."""
    config = await configs.of(org_id)
    return config.oidc if config.method is LoginMethod.OIDC else None
