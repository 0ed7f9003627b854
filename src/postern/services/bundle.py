"""All services over one set of ports, as the composition root hands them to the API and to workers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from postern.services.access import Access
from postern.services.agents import Agents
from postern.services.connections import Connections
from postern.services.credentials import Credentials
from postern.services.guardrails import GuardRails
from postern.services.identity.accounts import Accounts
from postern.services.identity.api_keys import ApiKeys
from postern.services.identity.authentication import Authentication
from postern.services.identity.authenticators import Authenticators
from postern.services.identity.device_login import DeviceLogin
from postern.services.identity.factor_check import FactorCheck
from postern.services.identity.groups import Groups
from postern.services.identity.handover import Handover
from postern.services.identity.local_login import LocalLogin
from postern.services.identity.logins import Logins
from postern.services.identity.machines import Machines
from postern.services.identity.oidc_login import OidcLogin
from postern.services.identity.openid import OpenId
from postern.services.identity.own_logins import OwnLogins
from postern.services.identity.passwords import Passwords
from postern.services.identity.provider_door import OidcDoor
from postern.services.identity.provisioning import Provisioning
from postern.services.identity.renewal import OidcRenewal
from postern.services.identity.saml import Saml
from postern.services.identity.saml_login import SamlLogin
from postern.services.identity.second_factors import RequiredFactors, SecondFactors
from postern.services.identity.service_accounts import ServiceAccounts
from postern.services.identity.setup_links import SetupLinks
from postern.services.identity.sign_in import SignIn
from postern.services.identity.tokens import Tokens
from postern.services.identity.users import Users
from postern.services.identity.vouchers import Vouchers
from postern.services.server.audit import Audit
from postern.services.server.auth_configs import AuthConfigs
from postern.services.server.auth_settings import AuthSettings
from postern.services.server.features import Features
from postern.services.server.health import Health
from postern.services.server.idempotency import Idempotency
from postern.services.server.machine import Machine
from postern.services.server.operators import Operators
from postern.services.server.organisations import Organisations
from postern.services.server.server_configs import ServerConfigs
from postern.services.server.server_logs import ServerLogs
from postern.services.sessions import Sessions
from postern.services.upkeep import Upkeep
from postern.store.ports import Clock, Recordings, Signals, Stores


@dataclass(frozen=True, slots=True)
class Services:
    access: Access
    accounts: Accounts
    agents: Agents
    api_keys: ApiKeys
    audit: Audit
    auth_configs: AuthConfigs
    auth_settings: AuthSettings
    authentication: Authentication
    connections: Connections
    credentials: Credentials
    device_login: DeviceLogin
    features: Features
    groups: Groups
    guardrails: GuardRails
    handover: Handover
    health: Health
    idempotency: Idempotency
    local_login: LocalLogin
    logins: Logins
    machines: Machines
    oidc_login: OidcLogin
    organisations: Organisations
    own_logins: OwnLogins
    provisioning: Provisioning
    saml_login: SamlLogin
    second_factors: SecondFactors
    server_configs: ServerConfigs
    server_logs: ServerLogs
    service_accounts: ServiceAccounts
    sessions: Sessions
    setup_links: SetupLinks
    sign_in: SignIn
    signals: Signals
    tokens: Tokens
    upkeep: Upkeep
    users: Users
    vouchers: Vouchers
    now: Clock


def build_services(
    stores: Stores,
    signals: Signals,
    recordings: Recordings,
    now: Clock,
    *,
    compiles: Callable[[str], str | None],
    enforceable: frozenset[str],
    passwords: Passwords | None = None,
    machine: Machine | None = None,
    openid: OpenId | None = None,
    saml: Saml | None = None,
) -> Services:
    """`enforceable`: the subtypes that have a relay, on which rules take effect and scripts run.

    `compiles`: the check of a pattern, see GuardRails. `machine`: what this machine is set up for.
    `openid` and `saml`: the clients for identity providers; without one that way in is refused.
    """
    machine = machine or Machine()
    features = Features(stores.settings, signals, now)
    access = Access(stores.access, stores.connections, features, signals, now)
    agents = Agents(stores.agents, stores.organisations, now)
    auth_configs = AuthConfigs(stores.settings, stores.organisations, signals, now, machine.auth)
    vouchers = Vouchers(stores.vouchers, now)
    operators = Operators(stores.organisations)
    server_configs = ServerConfigs(stores.settings, stores.organisations, operators, signals, now, machine)
    setup_links = SetupLinks(stores.principals, vouchers, server_configs, now)
    tokens = Tokens(stores.signing_keys, signals, now)
    sign_in = SignIn(stores.principals, stores.organisations, signals, now)
    renewal = OidcRenewal(openid, auth_configs, sign_in) if openid else None
    logins = Logins(stores.logins, tokens, now, renewal)
    handover = Handover(stores.principals, logins, vouchers)
    door = OidcDoor(openid, auth_configs, stores.organisations, stores.principals, signals, now) if openid else None
    api_keys = ApiKeys(stores.api_keys, stores.principals, signals, now)
    credentials = Credentials(stores.credentials, stores.connections, features, signals, now, enforceable=enforceable)
    accounts = Accounts(
        stores.principals, stores.organisations, auth_configs, logins, vouchers, now, passwords or Passwords()
    )
    authenticators = Authenticators(server_configs)
    check = FactorCheck(stores.second_factors, authenticators, now)
    required = RequiredFactors(check, auth_configs)
    users = Users(stores.principals, stores.organisations, accounts, logins, signals, now)
    return Services(
        access=access,
        accounts=accounts,
        agents=agents,
        api_keys=api_keys,
        audit=Audit(stores.audit, stores.organisations, now),
        auth_configs=auth_configs,
        auth_settings=AuthSettings(
            auth_configs,
            stores.organisations,
            stores.principals,
            stores.api_keys,
            operators,
            now,
            machine.provider,
        ),
        authentication=Authentication(tokens, logins, features, required, api_keys, door),
        connections=Connections(
            stores.connections, stores.agents, stores.guardrails, signals, now, enforceable=enforceable
        ),
        credentials=credentials,
        device_login=DeviceLogin(stores.principals, logins, vouchers, now),
        features=features,
        groups=Groups(stores.groups, signals, now),
        guardrails=GuardRails(
            stores.guardrails, stores.connections, signals, now, compiles=compiles, enforceable=enforceable
        ),
        handover=handover,
        health=Health(stores.schema, agents, signals, now),
        idempotency=Idempotency(stores.idempotency, now),
        local_login=LocalLogin(stores.principals, accounts, logins, vouchers, check, authenticators, now),
        logins=logins,
        machines=Machines(stores.machines, stores.principals, credentials, signals, now),
        organisations=Organisations(
            stores.organisations, stores.principals, stores.agents, setup_links, operators, now
        ),
        oidc_login=OidcLogin(openid, auth_configs, stores.organisations, vouchers, sign_in, handover),
        provisioning=Provisioning(stores.principals, stores.groups, users, signals, now),
        own_logins=OwnLogins(stores.principals, stores.organisations, accounts, logins, tokens),
        saml_login=SamlLogin(saml, auth_configs, stores.organisations, vouchers, sign_in, handover, now),
        second_factors=SecondFactors(
            stores.second_factors, stores.principals, accounts, logins, check, required, authenticators, now
        ),
        server_configs=server_configs,
        server_logs=ServerLogs(machine.journal, operators),
        service_accounts=ServiceAccounts(stores.principals, signals, now),
        sessions=Sessions(
            stores.sessions, stores.principals, access, recordings, features, signals, now, executable=enforceable
        ),
        setup_links=setup_links,
        sign_in=sign_in,
        signals=signals,
        tokens=tokens,
        upkeep=Upkeep(logins, vouchers, stores.idempotency, now),
        users=users,
        vouchers=vouchers,
        now=now,
    )
