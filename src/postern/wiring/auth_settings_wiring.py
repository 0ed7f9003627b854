"""The default login settings, from the environment, until an administrator changes them."""

from __future__ import annotations

from pathlib import Path

from postern.domain.identity.auth_config import ACTIVE_DIRECTORY, AuthConfig, LdapConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import AUTH_METHODS, LoginMethod
from postern.errors import Invalid, Misconfigured
from postern.services.server.auth_settings import LdapFields, OidcFields, checked_ldap, checked_oidc, checked_saml
from postern.settings import Settings

_NAMES = {
    "oidc_config.issuer_url": "OIDC_ISSUER",
    "oidc_config.client_id": "OIDC_CLIENT_ID",
    "oidc_config.client_secret": "OIDC_CLIENT_SECRET",
    "oidc_config.scopes": "OIDC_SCOPES",
    "oidc_config.audience": "OIDC_AUDIENCE",
    "oidc_config.groups_claim": "OIDC_GROUPS_CLAIM",
    "saml_config.idp_metadata_url": "SAML_METADATA_URL",
    "saml_config.groups_claim": "SAML_GROUPS_CLAIM",
    **{f"ldap_config.{name}": f"LDAP_{name.upper()}" for name in ("urls", "base_dn", "bind_dn", "bind_password", "ca")},
}


def default_auth(settings: Settings) -> AuthConfig:
    """Raises Misconfigured, naming the variable that is wrong or missing."""
    try:
        method = AUTH_METHODS[AUTH_METHODS.index(LoginMethod(settings.auth_method))]
    except ValueError:
        raise Misconfigured(
            f"POSTERN_AUTH_METHOD: {settings.auth_method!r} is unknown; use one of {', '.join(AUTH_METHODS)}",
            field="auth_method",
        ) from None
    needed = {
        LoginMethod.OIDC: ("oidc_issuer", "oidc_client_id"),
        LoginMethod.SAML: ("saml_metadata_url",),
        LoginMethod.LDAP: ("ldap_urls", "ldap_base_dn", "ldap_bind_dn"),
    }
    for name in needed.get(method, ()):
        if not getattr(settings, name):
            raise Misconfigured(f"POSTERN_{name.upper()}: is required with POSTERN_AUTH_METHOD={method}", field=name)
    try:
        oidc, saml, ldap = _oidc(settings), _saml(settings), _ldap(settings)
    except Invalid as error:
        field, _, problem = error.message.partition(": ")
        name = _NAMES.get(field, "AUTH_METHOD")
        raise Misconfigured(f"POSTERN_{name}: {problem}", field=name.lower()) from None
    return AuthConfig(method, oidc, saml, ldap, settings.auth_provider_name)


def _oidc(settings: Settings) -> OidcConfig | None:
    if not settings.oidc_issuer:
        return None
    return checked_oidc(
        OidcFields(
            issuer_url=settings.oidc_issuer,
            client_id=settings.oidc_client_id,
            client_secret=settings.oidc_client_secret,
            scopes=tuple(settings.oidc_scopes.replace(",", " ").split()),
            audience=settings.oidc_audience,
            groups_claim=settings.oidc_groups_claim,
        )
    )


def _saml(settings: Settings) -> SamlConfig | None:
    if not settings.saml_metadata_url:
        return None
    return checked_saml(SamlConfig(settings.saml_metadata_url, "", settings.saml_groups_claim))


def _ldap(settings: Settings) -> LdapConfig | None:
    """Raises Invalid, Misconfigured."""
    if not settings.ldap_urls:
        return None
    try:
        ca = Path(settings.ldap_ca).read_text() if settings.ldap_ca else ""
    except (OSError, UnicodeError) as error:
        raise Misconfigured(f"POSTERN_LDAP_CA: {settings.ldap_ca} cannot be read: {error}", field="ldap_ca") from None
    config = LdapConfig(
        urls=tuple(settings.ldap_urls.split()),
        base_dn=settings.ldap_base_dn,
        bind_dn=settings.ldap_bind_dn,
        start_tls=settings.ldap_start_tls,
        ca=ca,
        **(ACTIVE_DIRECTORY if settings.ldap_active_directory else {}),
    )
    return checked_ldap(LdapFields(config, settings.ldap_bind_password))
