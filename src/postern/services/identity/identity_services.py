"""The services that are about who asks and how they log in, built together."""

from __future__ import annotations

from dataclasses import dataclass

from postern.services.identity.accounts import Accounts
from postern.services.identity.api_keys import ApiKeys
from postern.services.identity.groups import Groups
from postern.services.identity.logins.authentication import Authentication
from postern.services.identity.logins.authenticators import Authenticators
from postern.services.identity.logins.device_login import DeviceLogin
from postern.services.identity.logins.factor_check import FactorCheck
from postern.services.identity.logins.handover import Handover
from postern.services.identity.logins.local_login import LocalLogin
from postern.services.identity.logins.logins import Logins
from postern.services.identity.logins.oidc_login import OidcLogin
from postern.services.identity.logins.openid_port import OpenId
from postern.services.identity.logins.own_logins import OwnLogins
from postern.services.identity.logins.passwords import Passwords
from postern.services.identity.logins.provider_door import OidcDoor
from postern.services.identity.logins.renewal import OidcRenewal
from postern.services.identity.logins.saml_login import SamlLogin
from postern.services.identity.logins.saml_port import Saml
from postern.services.identity.logins.second_factors import RequiredFactors, SecondFactors
from postern.services.identity.logins.sign_in import SignIn
from postern.services.identity.logins.ssh_logins import SshLogins
from postern.services.identity.logins.tokens import Tokens
from postern.services.identity.logins.vouchers import Vouchers
from postern.services.identity.provisioning import Provisioning
from postern.services.identity.service_accounts import ServiceAccounts
from postern.services.identity.setup_links import SetupLinks
from postern.services.identity.user_accounts import Users
from postern.services.server.server_services import ServerServices
from postern.store.ports.common_ports import Clock, Signals
from postern.store.stores import Stores


@dataclass(frozen=True)
class LoginServices:
    """Logins, and what they are made from."""

    accounts: Accounts
    handover: Handover
    logins: Logins
    sign_in: SignIn
    tokens: Tokens
    vouchers: Vouchers


@dataclass(frozen=True)
class DirectoryServices:
    """Who is known: people, programs and groups."""

    api_keys: ApiKeys
    groups: Groups
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


@dataclass(frozen=True)
class IdentityServices(LoginServices, DirectoryServices, WaysToLogIn):
    """Flat for who uses it."""


def build_identity(
    stores: Stores,
    signals: Signals,
    now: Clock,
    server: ServerServices,
    *,
    passwords: Passwords | None,
    openid: OpenId | None,
    saml: Saml | None,
) -> IdentityServices:
    """`passwords`, `openid` and `saml`: see `build_services`."""
    logins = _build_logins(stores, signals, now, server, passwords or Passwords(), openid)
    directory = _build_directory(stores, signals, now, server, logins)
    ways = _build_ways(stores, signals, now, server, logins, directory.api_keys, openid, saml)
    return IdentityServices(**vars(logins), **vars(directory), **vars(ways))


def _build_logins(
    stores: Stores, signals: Signals, now: Clock, server: ServerServices, passwords: Passwords, openid: OpenId | None
) -> LoginServices:
    principals, organisations, auth_configs = stores.principals, stores.organisations, server.auth_configs
    vouchers = Vouchers(stores.vouchers, now)
    tokens = Tokens(stores.signing_keys, signals, now)
    sign_in = SignIn(principals, organisations, signals, now)
    renewal = OidcRenewal(openid, auth_configs, sign_in) if openid else None
    logins = Logins(stores.logins, tokens, signals, now, renewal)
    accounts = Accounts(
        store=principals,
        organisations=organisations,
        auth_configs=auth_configs,
        logins=logins,
        vouchers=vouchers,
        now=now,
        passwords=passwords,
    )
    return LoginServices(accounts, Handover(principals, logins, vouchers), logins, sign_in, tokens, vouchers)


def _build_directory(
    stores: Stores, signals: Signals, now: Clock, server: ServerServices, known: LoginServices
) -> DirectoryServices:
    principals = stores.principals
    groups = Groups(stores.groups, signals, now)
    users = Users(
        store=stores.users,
        principals=principals,
        accounts=known.accounts,
        logins=known.logins,
        signals=signals,
        now=now,
    )
    return DirectoryServices(
        api_keys=ApiKeys(stores.api_keys, principals, signals, now, stores.credentials),
        groups=groups,
        provisioning=Provisioning(
            principals=principals, groups=stores.groups, users=users, group_service=groups, signals=signals, now=now
        ),
        service_accounts=ServiceAccounts(stores.service_accounts, signals, now),
        setup_links=SetupLinks(principals, known.vouchers, server.server_configs, now),
        users=users,
    )


def _build_ways(
    stores: Stores,
    signals: Signals,
    now: Clock,
    server: ServerServices,
    known: LoginServices,
    api_keys: ApiKeys,
    openid: OpenId | None,
    saml: Saml | None,
) -> WaysToLogIn:
    principals, organisations, auth_configs = stores.principals, stores.organisations, server.auth_configs
    accounts, logins, handover, vouchers = known.accounts, known.logins, known.handover, known.vouchers
    door = OidcDoor(openid, auth_configs, organisations, principals, signals, now) if openid else None
    authenticators = Authenticators(server.server_configs)
    check = FactorCheck(stores.second_factors, authenticators, now)
    required = RequiredFactors(check, auth_configs)
    return WaysToLogIn(
        authentication=Authentication(logins, server.features, required, api_keys, door),
        device_login=DeviceLogin(handover, vouchers, now),
        local_login=LocalLogin(
            store=principals,
            accounts=accounts,
            logins=logins,
            vouchers=vouchers,
            check=check,
            authenticators=authenticators,
            now=now,
        ),
        oidc_login=OidcLogin(openid, auth_configs, organisations, vouchers, known.sign_in, handover),
        own_logins=OwnLogins(principals, organisations, accounts, logins, known.tokens),
        saml_login=SamlLogin(
            saml=saml,
            configs=auth_configs,
            organisations=organisations,
            vouchers=vouchers,
            sign_in=known.sign_in,
            handover=handover,
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
        ssh_logins=SshLogins(handover, vouchers, logins, server.server_configs, signals, now),
    )
