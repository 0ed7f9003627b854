"""How people of an organisation prove who they are."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.identity.login import LoginMethod
from postern.domain.secret import Secret

DEFAULT_SCOPES = ("openid", "profile", "email")


@dataclass(frozen=True, slots=True)
class OidcConfig:
    """`audience` is what access tokens of the provider are made out to, so that they are taken as bearer tokens of
    this API; empty: they are not taken."""

    issuer_url: str
    client_id: str
    client_secret: Secret
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    audience: str = ""
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class SamlConfig:
    """Metadata of the identity provider: by URL, or as XML text, which then wins.

    The other fields name attributes of its assertions. Empty: the NameID is the subject; e-mail and name are looked
    for under the names that providers usually give them.
    """

    idp_metadata_url: str = ""
    idp_metadata: str = ""
    groups_claim: str = "groups"
    subject_attribute: str = ""
    email_attribute: str = ""
    name_attribute: str = ""


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """`method` is the one way in. `require_second_factor` is for local accounts; providers have their own."""

    method: LoginMethod = LoginMethod.LOCAL
    oidc: OidcConfig | None = None
    saml: SamlConfig | None = None
    provider_name: str = ""
    require_second_factor: bool = False
