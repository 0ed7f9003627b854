"""The services of identities and logins, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.domain.addresses import AllowedNetworks
from postern.domain.identity.login import LoginMethod
from postern.services.identity.accounts import Accounts
from postern.services.identity.api_keys import ApiKeys
from postern.services.identity.federation_rules import FederationRules
from postern.services.identity.groups import Groups
from postern.services.identity.ldap_login import Ldap, LdapLogin
from postern.services.identity.logins.authentication import Authentication
from postern.services.identity.logins.authenticators import Authenticators
from postern.services.identity.logins.code_exchange import CodeExchange
from postern.services.identity.logins.device_login import DeviceLogin
from postern.services.identity.logins.factor_check import FactorCheck
from postern.services.identity.logins.local_login import LocalLogin
from postern.services.identity.logins.logins import Logins, Renewal
from postern.services.identity.logins.oidc_login import OidcLogin
from postern.services.identity.logins.one_time_tokens import OneTimeTokens
from postern.services.identity.logins.openid_port import OpenId
from postern.services.identity.logins.own_logins import OwnLogins
from postern.services.identity.logins.passwords import Passwords
from postern.services.identity.logins.provider_tokens import ProviderTokenAuthenticator
from postern.services.identity.logins.renewal import OidcRenewal, Renewals
from postern.services.identity.logins.saml_login import SamlLogin
from postern.services.identity.logins.saml_port import Saml
from postern.services.identity.logins.second_factors import RequiredFactors, SecondFactors
from postern.services.identity.logins.sign_in import SignIn
from postern.services.identity.logins.ssh_logins import SshLogins
from postern.services.identity.logins.tokens import Tokens
from postern.services.identity.provisioning import Provisioning
from postern.services.identity.service_accounts import ServiceAccounts
from postern.services.identity.setup_links import SetupLinks
from postern.services.identity.step_up import StepUp
from postern.services.identity.token_exchange import TokenExchange
from postern.services.identity.user_accounts import Users
from postern.services.identity.user_preferences import UserPreferences
from postern.services.reviews.credential_endings import CredentialEndings
from postern.services.rules.network_control import NetworkControl
from postern.services.server.server_services import ServerServices
from postern.store.ports.common_ports import Clock, Signals
from postern.store.stores import Stores


@dataclass(frozen=True)
class LoginServices:
    """Services of logins, and those that they need."""

    accounts: Accounts
    code_exchange: CodeExchange
    logins: Logins
    sign_in: SignIn
    tokens: Tokens
    one_time_tokens: OneTimeTokens


@dataclass(frozen=True)
class DirectoryServices:
    """Services of users, programs and groups."""

    api_keys: ApiKeys
    federation_rules: FederationRules
    groups: Groups
    preferences: UserPreferences
    provisioning: Provisioning
    service_accounts: ServiceAccounts
    setup_links: SetupLinks
    users: Users


@dataclass(frozen=True)
class WaysToLogIn:
    authentication: Authentication
    device_login: DeviceLogin
    local_login: LocalLogin
    oidc_login: OidcLogin
    own_logins: OwnLogins
    saml_login: SamlLogin
    second_factors: SecondFactors
    ssh_logins: SshLogins
    step_up: StepUp
    token_exchange: TokenExchange


@dataclass(frozen=True)
class IdentityServices(LoginServices, DirectoryServices, WaysToLogIn):
    """All services of identities as one flat object."""


def build_identity(
    stores: Stores,
    signals: Signals,
    now: Clock,
    server: ServerServices,
    networks: NetworkControl,
    *,
    passwords: Passwords | None,
    openid: OpenId | None,
    saml: Saml | None,
    ldap: Ldap | None,
    issuer_networks: AllowedNetworks,
) -> IdentityServices:
    """Build the services of identities. `networks` limits logins and the API. `passwords`, `openid`, `saml` and
    `ldap`: see `build_services`. `issuer_networks`: the private networks in which issuers of tokens may be."""
    logins = _build_logins(stores, signals, now, server, networks, passwords or Passwords(), openid, ldap)
    directory = _build_directory(stores, signals, now, server, logins, issuer_networks)
    ways = _build_ways(stores, signals, now, server, networks, logins, directory.api_keys, openid, saml)
    return IdentityServices(**vars(logins), **vars(directory), **vars(ways))


def _build_logins(
    stores: Stores,
    signals: Signals,
    now: Clock,
    server: ServerServices,
    networks: NetworkControl,
    passwords: Passwords,
    openid: OpenId | None,
    ldap: Ldap | None,
) -> LoginServices:
    principals, organisations, auth_configs = stores.principals, stores.organisations, server.auth_configs
    one_time_tokens = OneTimeTokens(stores.one_time_tokens, now)
    tokens = Tokens(stores.signing_keys, signals, now)
    sign_in = SignIn(principals, organisations, signals, now)
    ldap_login = LdapLogin(ldap, auth_configs, sign_in, now)
    renewals: dict[LoginMethod, Renewal] = {LoginMethod.LDAP: ldap_login}
    if openid:
        renewals[LoginMethod.OIDC] = OidcRenewal(openid, auth_configs, sign_in)
    logins = Logins(stores.logins, tokens, networks, signals, now, Renewals(renewals))
    accounts = Accounts(
        store=principals,
        organisations=organisations,
        auth_configs=auth_configs,
        logins=logins,
        one_time_tokens=one_time_tokens,
        now=now,
        passwords=passwords,
        ldap=ldap_login,
    )
    return LoginServices(
        accounts, CodeExchange(principals, logins, one_time_tokens), logins, sign_in, tokens, one_time_tokens
    )


def _build_directory(
    stores: Stores,
    signals: Signals,
    now: Clock,
    server: ServerServices,
    login_services: LoginServices,
    issuer_networks: AllowedNetworks,
) -> DirectoryServices:
    principals = stores.principals
    groups = Groups(stores.groups, signals, now)
    users = Users(
        store=stores.users,
        principals=principals,
        accounts=login_services.accounts,
        logins=login_services.logins,
        signals=signals,
        now=now,
    )
    return DirectoryServices(
        api_keys=ApiKeys(
            stores.api_keys,
            principals,
            signals,
            now,
            stores.credentials,
            CredentialEndings(stores.reviews, signals, now),
        ),
        federation_rules=FederationRules(
            stores.federation_rules, principals, login_services.logins, issuer_networks, signals, now
        ),
        groups=groups,
        preferences=UserPreferences(stores.preferences, now),
        provisioning=Provisioning(
            principals=principals, groups=stores.groups, users=users, group_service=groups, signals=signals, now=now
        ),
        service_accounts=ServiceAccounts(stores.service_accounts, signals, now),
        setup_links=SetupLinks(principals, login_services.one_time_tokens, server.server_configs, now),
        users=users,
    )


def _build_ways(
    stores: Stores,
    signals: Signals,
    now: Clock,
    server: ServerServices,
    networks: NetworkControl,
    login_services: LoginServices,
    api_keys: ApiKeys,
    openid: OpenId | None,
    saml: Saml | None,
) -> WaysToLogIn:
    principals, organisations, auth_configs = stores.principals, stores.organisations, server.auth_configs
    accounts, logins, code_exchange, one_time_tokens = (
        login_services.accounts,
        login_services.logins,
        login_services.code_exchange,
        login_services.one_time_tokens,
    )
    door = ProviderTokenAuthenticator(openid, auth_configs, organisations, principals, signals, now) if openid else None
    authenticators = Authenticators(server.server_configs)
    check = FactorCheck(stores.second_factors, authenticators, now)
    required = RequiredFactors(check, auth_configs)
    return WaysToLogIn(
        authentication=Authentication(
            logins=logins,
            features=server.features,
            factors=required,
            networks=networks,
            principals=principals,
            api_keys=api_keys,
            provider=door,
        ),
        device_login=DeviceLogin(code_exchange, one_time_tokens, now),
        local_login=LocalLogin(
            store=principals,
            accounts=accounts,
            logins=logins,
            one_time_tokens=one_time_tokens,
            check=check,
            authenticators=authenticators,
            now=now,
        ),
        oidc_login=OidcLogin(
            openid, auth_configs, organisations, one_time_tokens, login_services.sign_in, code_exchange
        ),
        own_logins=OwnLogins(principals, organisations, accounts, logins, login_services.tokens),
        saml_login=SamlLogin(
            saml=saml,
            configs=auth_configs,
            organisations=organisations,
            one_time_tokens=one_time_tokens,
            sign_in=login_services.sign_in,
            code_exchange=code_exchange,
            now=now,
        ),
        second_factors=SecondFactors(
            store=stores.second_factors,
            principals=principals,
            accounts=accounts,
            logins=logins,
            check=check,
            required=required,
            authenticators=authenticators,
            now=now,
        ),
        ssh_logins=SshLogins(code_exchange, one_time_tokens, logins, server.server_configs, signals, now),
        step_up=StepUp(
            accounts=accounts,
            logins=logins,
            one_time_tokens=one_time_tokens,
            check=check,
            authenticators=authenticators,
        ),
        token_exchange=TokenExchange(
            openid=openid,
            rules=stores.federation_rules,
            organisations=organisations,
            principals=principals,
            logins=logins,
            one_time_tokens=one_time_tokens,
            now=now,
        ),
    )
