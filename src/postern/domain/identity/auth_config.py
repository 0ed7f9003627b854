"""The authentication settings of an organisation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from postern.domain.identity.login import LoginMethod
from postern.domain.secret import NO_SECRET, Secret

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
class LdapConfig:
    """LDAP settings. Servers are tried in the order of `urls`; `ca` is PEM text, empty for the system's authorities.

    `bind_dn` searches for users by `user_filter` below `base_dn`, and the user then logs in by the DN that was found.
    Without it, the user logs in by `bind_template`, such as `{user}@corp.example`. Groups are the user's `memberOf`, or
    what `group_filter` finds; `nested_groups` finds those of Active Directory through other groups. Only groups below
    `group_base_dn` count, `base_dn` by default.
    """

    urls: tuple[str, ...]
    base_dn: str
    bind_dn: str = ""
    bind_password: Secret = NO_SECRET
    bind_template: str = ""
    start_tls: bool = False
    ca: str = ""
    user_filter: str = "(uid={user})"
    login_attribute: str = "uid"
    id_attribute: str = "entryUUID"
    email_attribute: str = "mail"
    name_attribute: str = "cn"
    group_base_dn: str = ""
    group_filter: str = ""
    nested_groups: bool = False

    @property
    def issuer(self) -> str:
        """The directory in its users' accounts."""
        return f"ldap:{self.base_dn}"


# Fields that differ in Active Directory.
ACTIVE_DIRECTORY: Mapping[str, Any] = {
    "user_filter": "(&(objectCategory=person)(objectClass=user)(|(sAMAccountName={user})(userPrincipalName={user})))",
    "login_attribute": "sAMAccountName",
    "id_attribute": "objectGUID",
    "name_attribute": "displayName",
}


@dataclass(frozen=True, slots=True)
class AuthConfig:
    """`method` is the one login method. `require_second_factor` is for logins by password; providers manage their
    own."""

    method: LoginMethod = LoginMethod.LOCAL
    oidc: OidcConfig | None = None
    saml: SamlConfig | None = None
    ldap: LdapConfig | None = None
    provider_name: str = ""
    require_second_factor: bool = False
