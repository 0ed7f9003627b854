"""Authentication settings of an organisation, with checks against locking all users out."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Protocol
from urllib.parse import urlsplit
from uuid import UUID

from postern.domain.addresses import AllowedNetworks, check_saved
from postern.domain.identity.auth_config import DEFAULT_SCOPES, AuthConfig, LdapConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.organisation import DEFAULT, Organisation
from postern.domain.identity.principal import Principal, PrincipalFilter, PrincipalStatus
from postern.domain.lists import MAX_LIMIT, Page
from postern.domain.secret import NO_SECRET, Secret
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.identity.users import require_person
from postern.services.server.audit_context import record_change
from postern.services.server.auth_configs import AuthConfigs
from postern.services.server.operators import Operators
from postern.services.server.role_names import checked_roles, tell_of_roles
from postern.services.server.server_addresses import checked_url, is_loopback
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.identity_ports import ApiKeyStore, PrincipalStore
from postern.store.ports.server_ports import OrganisationStore

MAX_METADATA = 1024 * 1024  # characters of a SAML identity provider's metadata
MAX_SECRET = 4_096  # characters
MAX_LDAP_SERVERS, MAX_LDAP_TEXT = 5, 1_000
_MAX_SCOPES, _MAX_TEXT = 20, 255
_ATTRIBUTE = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")
_PLACEHOLDER = re.compile(r"\{[a-z]+\}")
_LDAP_TEXTS = ("base_dn", "bind_dn", "bind_template", "user_filter", "group_base_dn", "group_filter")


class ProviderCheck(Protocol):
    """Checks that an identity provider answers; the wiring passes it in."""

    async def check(self, config: AuthConfig) -> str:
        """Return the issuer that its users will have. Raises Invalid when the provider cannot be used as configured,
        Unavailable when it does not answer in time."""


@dataclass(frozen=True, slots=True)
class OidcFields:
    """OpenID Connect fields of a request. None for `client_secret` keeps the stored one."""

    issuer_url: str
    client_id: str
    client_secret: Secret | None = None
    scopes: tuple[str, ...] = DEFAULT_SCOPES
    audience: str = ""
    groups_claim: str = "groups"


@dataclass(frozen=True, slots=True)
class LdapFields:
    """LDAP fields of a request. None for `bind_password` keeps the stored one; `config` has the others."""

    config: LdapConfig
    bind_password: Secret | None = None


@dataclass(frozen=True, slots=True)
class AuthFields:
    """The fields of a request. None for `oidc`, `saml`, `ldap` and the role names keeps what is stored.

    `confirm`: accept the change although no administrator is known by the new method.
    """

    method: LoginMethod
    oidc: OidcFields | None = None
    saml: SamlConfig | None = None
    ldap: LdapFields | None = None
    provider_name: str = ""
    require_second_factor: bool = False
    admin_role_name: str | None = None
    auditor_role_name: str | None = None
    confirm: bool = False


class AuthSettings:
    """`provider` is missing where this build has no client for providers: then only local login can be chosen."""

    def __init__(
        self,
        *,
        configs: AuthConfigs,
        organisations: OrganisationStore,
        principals: PrincipalStore,
        api_keys: ApiKeyStore,
        operators: Operators,
        signals: Signals,
        now: Clock,
        provider: ProviderCheck | None = None,
        networks: AllowedNetworks | None = None,
    ) -> None:
        """`networks`: the private ones in which identity providers may be."""
        self._operators = operators
        self._configs = configs
        self._organisations = organisations
        self._principals = principals
        self._api_keys = api_keys
        self._signals = signals
        self._now = now
        self._provider = provider
        self._networks = networks or AllowedNetworks("POSTERN_PROVIDER_NETWORKS")

    async def public(self, organisation: str | None) -> AuthConfig:
        """Return the public settings of an organisation by name, of the default one when None.

        An unknown organisation looks like one with local login.
        """
        if organisation is None:
            found_organisation: Organisation | None = await self._organisations.default()
        else:
            found_organisation = await self._organisations.by_name(organisation)
        return AuthConfig() if found_organisation is None else await self._configs.of(found_organisation.id)

    async def get(self, principal: Principal) -> tuple[AuthConfig, Organisation]:
        """Return the settings, for admins and auditors. Raises Denied, NotFound."""
        if not principal.sees_all:
            raise Denied("only administrators and auditors can see the login settings of this organisation")
        return await self._configs.of(principal.org_id), await self._own(principal.org_id)

    async def put(self, principal: Principal, fields: AuthFields) -> tuple[AuthConfig, Organisation]:
        """Change the settings, all or none. Raises Denied, Invalid, Conflict, Unavailable."""
        if not principal.is_admin:
            raise Denied("only administrators can change the login settings of this organisation")
        before, current = await self._configs.of(principal.org_id), await self._own(principal.org_id)
        roles = checked_roles(current.role_groups, fields.admin_role_name, fields.auditor_role_name)
        config = _merge_fields(before, fields)
        if roles != current.role_groups or config not in (before, replace(before, method=LoginMethod.LOCAL)):
            # The provider decides about every identity. Going back to local login stays possible after a wrong choice.
            require_person(principal, "change the login settings of this organisation, except back to local login")
        if not await self._operators.include(principal):
            _check_machine(before, config)
        _check_networks(before, config, self._networks)
        issuer = await self._preflight(config)
        if issuer is not None and not fields.confirm and _leads_elsewhere(before, config):
            await self._require_way_back(current, issuer)
        organisation = replace(current, role_groups=roles)
        if organisation != current:
            organisation = await self._organisations.update(organisation)
            await tell_of_roles(self._signals, current, organisation)
        await self._configs.put(principal.org_id, config)
        record_change(_audit_fields(before, current), _audit_fields(config, organisation))
        return config, organisation

    async def reset(self) -> tuple[AuthConfig, bool]:
        """Restore local login for the default organisation, as a command on this machine. The provider's settings stay.

        Return the previous settings, and whether an active administrator has a password.
        """
        organisation = await self._organisations.default()
        before = await self._configs.of(organisation.id)
        after = replace(before, method=LoginMethod.LOCAL, require_second_factor=False)
        await self._configs.put(organisation.id, after)
        record_change(_audit_fields(before, organisation), _audit_fields(after, organisation))
        principal_filter = PrincipalFilter(group=organisation.role_groups.admin, status=PrincipalStatus.ACTIVE)
        administrators = await self._principals.find(organisation.id, principal_filter, Page(MAX_LIMIT))
        return before, any(account.password_hash for account in administrators.items)

    async def _own(self, org_id: UUID) -> Organisation:
        organisation = await self._organisations.get(org_id)
        if organisation is None:
            raise NotFound("this organisation was deleted")
        return organisation

    async def _preflight(self, config: AuthConfig) -> str | None:
        """Return the provider's issuer; None for local login."""
        if config.method is LoginMethod.LOCAL:
            return None
        if self._provider is None:
            raise Invalid(
                f"auth_method: this process cannot log users in with {config.method}; choose local", field="auth_method"
            )
        return await self._provider.check(config)

    async def _require_way_back(self, organisation: Organisation, issuer: str) -> None:
        """Check that an administrator can log in by the new method, or has an API key. Raises Conflict."""
        admins = PrincipalFilter(group=organisation.role_groups.admin)
        offset, total = 0, 1
        while offset < total:
            listed = await self._principals.find(organisation.id, admins, Page(MAX_LIMIT, offset))
            for account in listed.items:
                principal = account.principal
                if principal.status is PrincipalStatus.INVITED or (principal.is_active and principal.issuer == issuer):
                    return
            offset, total = offset + MAX_LIMIT, listed.total
        if await self._has_admin_key(organisation.id):
            return
        raise Conflict(
            "auth_method: no administrator could log in with the new method: none is invited, none came from that "
            "provider, and none has an API key. Invite one by e-mail first, or send `confirm: true` if the provider's "
            "groups give the admin role; `postern auth reset` on the server's own machine restores local login",
            field="auth_method",
        )

    async def _has_admin_key(self, org_id: UUID) -> bool:
        now = self._now()
        offset, total = 0, 1
        while offset < total:
            listed = await self._api_keys.find(org_id, Page(MAX_LIMIT, offset))
            for key in listed.items:
                owner = key.account.principal
                if key.is_live(now) and owner.is_active and owner.is_admin:
                    return True
            offset, total = offset + MAX_LIMIT, listed.total
        return False


def _leads_elsewhere(before: AuthConfig, after: AuthConfig) -> bool:
    """Return whether users who could log in before may not be able to any more."""
    if before.method is not after.method:
        return True
    if after.method is LoginMethod.LDAP:
        return before.ldap != after.ldap
    return _issuer(before) != _issuer(after) if after.method is LoginMethod.OIDC else before.saml != after.saml


def _check_machine(before: AuthConfig, after: AuthConfig) -> None:
    """Raise Invalid for loopback addresses: only operators can have the server's own ports contacted."""
    for field, host in _changed_hosts(before, after):
        if is_loopback(host):
            raise Invalid(
                f"{field}: is an address of this machine, which only administrators of the organisation {DEFAULT!r} "
                "can choose",
                field=field,
            )


def _check_networks(before: AuthConfig, after: AuthConfig, allowed: AllowedNetworks) -> None:
    """Raise Invalid for a forbidden address. Loopback is allowed here, for operators."""
    for field, host in _changed_hosts(before, after):
        check_saved(host, allowed.networks, allowed.setting, field, loopback=True)


def _changed_hosts(before: AuthConfig, after: AuthConfig) -> list[tuple[str, str]]:
    """Return the fields whose address has changed, with the new hosts."""
    addresses = [
        ("oidc_config.issuer_url", _issuer(before), _issuer(after)),
        ("saml_config.idp_metadata_url", _metadata_url(before), _metadata_url(after)),
    ]
    known, urls = before.ldap.urls if before.ldap else (), after.ldap.urls if after.ldap else ()
    addresses += [("ldap_config.urls", "", url) for url in urls if url not in known]
    return [(field, urlsplit(now).hostname or "") for field, before_url, now in addresses if now and now != before_url]


def _issuer(config: AuthConfig) -> str:
    return config.oidc.issuer_url if config.oidc else ""


def _metadata_url(config: AuthConfig) -> str:
    return config.saml.idp_metadata_url if config.saml else ""


def _merge_fields(current: AuthConfig, changes: AuthFields) -> AuthConfig:
    oidc = current.oidc if changes.oidc is None else checked_oidc(changes.oidc, current.oidc)
    saml = current.saml if changes.saml is None else checked_saml(changes.saml)
    ldap = current.ldap if changes.ldap is None else checked_ldap(changes.ldap, current.ldap)
    _check_text("provider_name", changes.provider_name)
    if changes.method is LoginMethod.OIDC and oidc is None:
        raise Invalid("oidc_config: is required for auth_method oidc", field="oidc_config")
    if changes.method is LoginMethod.SAML and saml is None:
        raise Invalid("saml_config: is required for auth_method saml", field="saml_config")
    if changes.method is LoginMethod.LDAP and ldap is None:
        raise Invalid("ldap_config: is required for auth_method ldap", field="ldap_config")
    return AuthConfig(changes.method, oidc, saml, ldap, changes.provider_name, changes.require_second_factor)


def checked_oidc(fields: OidcFields, current: OidcConfig | None = None) -> OidcConfig:
    """Return the configuration. Raises Invalid.

    A secret is kept only for the same issuer and client, so that a changed setting cannot send it elsewhere.
    """
    issuer = checked_url(fields.issuer_url, "oidc_config.issuer_url", "identity provider")
    for name in ("client_id", "audience", "groups_claim"):
        _check_text(f"oidc_config.{name}", getattr(fields, name))
    for name in ("client_id", "groups_claim"):
        if not getattr(fields, name):
            raise Invalid(f"oidc_config.{name}: is required", field=f"oidc_config.{name}")
    if len(fields.scopes) > _MAX_SCOPES or not all(_is_scope(scope) for scope in fields.scopes):
        raise Invalid(f"oidc_config.scopes: at most {_MAX_SCOPES} words without blanks", field="oidc_config.scopes")
    if "openid" not in fields.scopes:
        raise Invalid("oidc_config.scopes: must have openid", field="oidc_config.scopes")
    secret = fields.client_secret
    if secret is None:
        secret = current.client_secret if current else Secret("")
        if secret and current and (current.issuer_url, current.client_id) != (issuer, fields.client_id):
            raise Invalid(
                "oidc_config.client_secret: give it again, since the issuer or client has changed",
                field="oidc_config.client_secret",
            )
    elif len(secret.reveal()) > MAX_SECRET:
        raise Invalid(f"oidc_config.client_secret: at most {MAX_SECRET} characters", field="oidc_config.client_secret")
    return OidcConfig(issuer, fields.client_id, secret, fields.scopes, fields.audience, fields.groups_claim)


def checked_saml(config: SamlConfig) -> SamlConfig:
    """Return the configuration. Raises Invalid."""
    if config.idp_metadata_url:
        checked_url(config.idp_metadata_url, "saml_config.idp_metadata_url", "identity provider")
    if len(config.idp_metadata) > MAX_METADATA:
        raise Invalid(f"saml_config.idp_metadata: at most {MAX_METADATA} characters", field="saml_config.idp_metadata")
    if not config.idp_metadata_url and not config.idp_metadata:
        raise Invalid("saml_config: needs idp_metadata_url or idp_metadata", field="saml_config")
    for name in ("groups_claim", "subject_attribute", "email_attribute", "name_attribute"):
        _check_text(f"saml_config.{name}", getattr(config, name))
    if not config.groups_claim:
        raise Invalid("saml_config.groups_claim: is required", field="saml_config.groups_claim")
    return config


def checked_ldap(fields: LdapFields, current: LdapConfig | None = None) -> LdapConfig:
    """Return the configuration. Raises Invalid.

    A password is kept only for the same account and servers, so that a changed setting cannot send it elsewhere.
    """
    config = fields.config
    _check_ldap_urls(config)
    for name in _LDAP_TEXTS:
        value = getattr(config, name)
        if len(value) > MAX_LDAP_TEXT or any(ord(character) < 32 or character == "\x7f" for character in value):
            raise _invalid_ldap(name, f"at most {MAX_LDAP_TEXT} characters, and no control characters")
    for name in ("base_dn", "user_filter", "login_attribute", "id_attribute", "email_attribute", "name_attribute"):
        if not getattr(config, name):
            raise _invalid_ldap(name, "is required")
    for name in ("login_attribute", "id_attribute", "email_attribute", "name_attribute"):
        if not _ATTRIBUTE.fullmatch(getattr(config, name)):
            raise _invalid_ldap(name, "must be the name of an attribute")
    if "{user}" not in config.user_filter:
        raise _invalid_ldap("user_filter", "must have {user}, where the user name goes")
    if bool(config.bind_dn) == bool(config.bind_template):
        raise _invalid_ldap("bind_dn", "give an account that searches for users, or bind_template, and not both")
    if config.bind_template and config.bind_template.count("{user}") != 1:
        raise _invalid_ldap("bind_template", "must have {user} once, where the user name goes")
    if config.group_filter and not {"{dn}", "{user}"} & set(_PLACEHOLDER.findall(config.group_filter)):
        raise _invalid_ldap("group_filter", "must have {dn} or {user}, such as (member={dn})")
    _check_ca(config.ca)
    return replace(config, bind_password=_bind_password(fields, current))


def _check_ldap_urls(config: LdapConfig) -> None:
    if not 1 <= len(config.urls) <= MAX_LDAP_SERVERS:
        raise _invalid_ldap("urls", f"1 to {MAX_LDAP_SERVERS} are required")
    for url in config.urls:
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname or "", parts.port
        except ValueError:
            raise _invalid_ldap("urls", f"{url!r} is not a URL") from None
        extra = parts.path.strip("/") or parts.query or parts.fragment or parts.username
        if parts.scheme not in ("ldap", "ldaps") or not host or extra or not url.isascii() or not url.isprintable():
            raise _invalid_ldap("urls", f"{url!r}: write it as ldaps://dc1.example.com, with a port if necessary")
        if parts.scheme == "ldap" and not config.start_tls and not is_loopback(host):
            raise _invalid_ldap("urls", f"{url!r} would send passwords in clear: use ldaps://, or start_tls")


def _check_ca(ca: str) -> None:
    if len(ca) > MAX_METADATA:
        raise _invalid_ldap("ca", f"at most {MAX_METADATA} characters")
    if ca and "-----BEGIN CERTIFICATE-----" not in ca:
        raise _invalid_ldap("ca", "must be certificates in PEM form")


def _bind_password(fields: LdapFields, current: LdapConfig | None) -> Secret:
    """Return the password of the account that searches. Raises Invalid."""
    config, password = fields.config, fields.bind_password
    if not config.bind_dn:
        return NO_SECRET
    if password is None and current is not None and (current.bind_dn, current.urls) == (config.bind_dn, config.urls):
        password = current.bind_password
    if password is None or not password.reveal() or "\0" in password.reveal() or len(password.reveal()) > MAX_SECRET:
        raise _invalid_ldap("bind_password", "give it, also again if bind_dn or urls have changed")
    return password


def _invalid_ldap(name: str, problem: str) -> Invalid:
    return Invalid(f"ldap_config.{name}: {problem}", field=f"ldap_config.{name}")


def _is_scope(text: str) -> bool:
    """Return whether it is a scope (RFC 6749 section 3.3)."""
    return 0 < len(text) <= _MAX_TEXT and all("!" <= character <= "~" and character not in '"\\' for character in text)


def _check_text(field: str, text: str) -> None:
    if len(text) > _MAX_TEXT or any(ord(character) < 32 or character == "\x7f" for character in text):
        raise Invalid(f"{field}: at most {_MAX_TEXT} characters, and no control characters", field=field)


def _audit_fields(config: AuthConfig, organisation: Organisation) -> dict[str, object]:
    """Return the audited fields; the audit log redacts the secret."""
    return {
        "auth_method": config.method,
        "oidc_config": config.oidc,
        "saml_config": config.saml,
        "ldap_config": config.ldap,
        "provider_name": config.provider_name,
        "require_second_factor": config.require_second_factor,
        "admin_role_name": organisation.role_groups.admin,
        "auditor_role_name": organisation.role_groups.auditor,
    }
