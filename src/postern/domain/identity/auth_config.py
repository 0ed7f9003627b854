"""The authentication settings of an organisation."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret

DEFAULT_SCOPES = ("openid", "profile", "email")


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """OpenID Connect settings. `audience` is that of the provider's access tokens which this API accepts as bearer
    tokens; empty: none."""

    issuer_url: str
    client_id: str
    client_secret: Secret
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    audience: str = ""
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class SamlConfig:
    """SAML settings: the identity provider's metadata by URL, or as XML text, which then takes precedence.

    The other fields name attributes of its assertions. Empty: the NameID is the subject; e-mail and name are looked for
    under common names.
    """

    idp_metadata_url: str = ""
    idp_metadata: str = ""
    groups_claim: str = "groups"
    subject_attribute: str = ""
    email_attribute: str = ""
    name_attribute: str = ""


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """`method` is the one login method. `require_second_factor` is for local accounts; providers manage their own."""

    method: LoginMethod = LoginMethod.LOCAL
    oidc: OidcConfig | None = None
    saml: SamlConfig | None = None
    provider_name: str = ""
    require_second_factor: bool = False
