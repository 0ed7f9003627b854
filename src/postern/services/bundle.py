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
from postern.services.identity.authentication import Authentication
from postern.services.identity.device_login import DeviceLogin
from postern.services.identity.handover import Handover
from postern.services.identity.logins import Logins
from postern.services.identity.oidc_login import OidcLogin
from postern.services.identity.openid import OpenId
from postern.services.identity.passwords import Passwords
from postern.services.identity.provider_door import OidcDoor
from postern.services.identity.renewal import OidcRenewal
from postern.services.identity.saml import Saml
from postern.services.identity.saml_login import SamlLogin
from postern.services.identity.sign_in import SignIn
from postern.services.identity.tokens import Tokens
from postern.services.identity.users import Users
from postern.services.identity.vouchers import Vouchers
from postern.services.server.audit import Audit
from postern.services.server.auth_configs import AuthConfigs
from postern.services.sessions import Sessions
from postern.store.ports import Clock, Recordings, Signals, Stores


@dataclass(frozen=True, slots=True)
class Services:
    access: Access
    accounts: Accounts
    agents: Agents
    audit: Audit
    auth_configs: AuthConfigs
    authentication: Authentication
    connections: Connections
    credentials: Credentials
    device_login: DeviceLogin
    guardrails: GuardRails
    handover: Handover
    logins: Logins
    oidc_login: OidcLogin
    saml_login: SamlLogin
    sessions: Sessions
    sign_in: SignIn
    signals: Signals
    tokens: Tokens
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
    openid: OpenId | None = None,
    saml: Saml | None = None,
) -> Services:
    """`enforceable`: the subtypes that have a relay, on which rules take effect and scripts run.

    `compiles`: the check of a pattern, see GuardRails.
    """
    access = Access(stores.access, stores.connections, signals, now)
    tokens = Tokens(stores.signing_keys, signals, now)
    configs = AuthConfigs(stores.settings, signals, now)
    sign_in = SignIn(stores.principals, stores.organisations, signals, now)
    vouchers = Vouchers(stores.vouchers, now)
    renewal = OidcRenewal(openid, configs, sign_in) if openid else None
    logins = Logins(stores.logins, tokens, now, renewal)
    handover = Handover(stores.principals, logins, vouchers)
    door = OidcDoor(openid, configs, stores.organisations, stores.principals, signals, now) if openid else None
    accounts = Accounts(stores.principals, stores.organisations, logins, now, passwords or Passwords())
    return Services(
        access=access,
        accounts=accounts,
        agents=Agents(stores.agents, stores.organisations, now),
        audit=Audit(stores.audit, stores.organisations, now),
        auth_configs=configs,
        authentication=Authentication(tokens, logins, provider=door),
        connections=Connections(
            stores.connections, stores.agents, stores.guardrails, signals, now, enforceable=enforceable
        ),
        credentials=Credentials(stores.credentials, stores.connections, signals, now, enforceable=enforceable),
        device_login=DeviceLogin(stores.principals, logins, vouchers, now),
        guardrails=GuardRails(
            stores.guardrails, stores.connections, signals, now, compiles=compiles, enforceable=enforceable
        ),
        handover=handover,
        logins=logins,
        oidc_login=OidcLogin(openid, configs, stores.organisations, vouchers, sign_in, handover),
        saml_login=SamlLogin(saml, configs, stores.organisations, vouchers, sign_in, handover, now),
        sessions=Sessions(stores.sessions, stores.principals, access, recordings, signals, now, executable=enforceable),
        sign_in=sign_in,
        signals=signals,
        tokens=tokens,
        users=Users(stores.principals, accounts, logins, signals, now),
        vouchers=vouchers,
        now=now,
    )
