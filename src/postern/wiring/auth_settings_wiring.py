"""The default login settings, from the environment, until an administrator changes them."""

from __future__ import annotations

from postern.domain.identity.auth_config import AuthConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.errors import Invalid, Misconfigured
from postern.services.server.auth_settings import OidcFields, checked_oidc, checked_saml
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
}


def default_auth(settings: Settings) -> AuthConfig:
    """Raises Misconfigured, naming the variable that is wrong or missing."""
    try:
        method = LoginMethod(settings.auth_method)
    except ValueError:
        raise Misconfigured(
            f"POSTERN_AUTH_METHOD: {settings.auth_method!r} is unknown; use one of {', '.join(LoginMethod)}",
            field="auth_method",
        ) from None
    needed = {LoginMethod.OIDC: ("oidc_issuer", "oidc_client_id"), LoginMethod.SAML: ("saml_metadata_url",)}
    for name in needed.get(method, ()):
        if not getattr(settings, name):
            raise Misconfigured(f"POSTERN_{name.upper()}: is required with POSTERN_AUTH_METHOD={method}", field=name)
    try:
        oidc, saml = _oidc(settings), _saml(settings)
    except Invalid as error:
        field, _, problem = error.message.partition(": ")
        name = _NAMES.get(field, "AUTH_METHOD")
        raise Misconfigured(f"POSTERN_{name}: {problem}", field=name.lower()) from None
    return AuthConfig(method, oidc, saml, settings.auth_provider_name)


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
