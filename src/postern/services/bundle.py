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
from postern.services.identity.authenticators import Authenticators
from postern.services.identity.factor_check import FactorCheck
from postern.services.identity.local_login import LocalLogin
from postern.services.identity.logins import Logins
from postern.services.identity.own_logins import OwnLogins
from postern.services.identity.passwords import Passwords
from postern.services.identity.second_factors import RequiredFactors, SecondFactors
from postern.services.identity.setup_links import SetupLinks
from postern.services.identity.sign_in import SignIn
from postern.services.identity.tokens import Tokens
from postern.services.identity.users import Users
from postern.services.identity.vouchers import Vouchers
from postern.services.server.audit import Audit
from postern.services.server.auth_configs import AuthConfigs
from postern.services.sessions import Sessions
from postern.services.upkeep import Upkeep
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
    guardrails: GuardRails
    local_login: LocalLogin
    logins: Logins
    own_logins: OwnLogins
    second_factors: SecondFactors
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
    api_url: str,
    passwords: Passwords | None = None,
) -> Services:
    """`enforceable`: the subtypes that have a relay, on which rules take effect and scripts run.

    `compiles`: the check of a pattern, see GuardRails. `api_url`: where browsers find the API, without `/api`.
    """
    access = Access(stores.access, stores.connections, signals, now)
    tokens = Tokens(stores.signing_keys, signals, now)
    logins = Logins(stores.logins, tokens, now)
    vouchers = Vouchers(stores.vouchers, now)
    auth_configs = AuthConfigs(stores.settings, signals, now)
    accounts = Accounts(
        stores.principals, stores.organisations, auth_configs, logins, vouchers, now, passwords or Passwords()
    )
    authenticators = Authenticators(api_url)
    check = FactorCheck(stores.second_factors, authenticators, now)
    required = RequiredFactors(check, auth_configs)
    return Services(
        access=access,
        accounts=accounts,
        agents=Agents(stores.agents, stores.organisations, now),
        audit=Audit(stores.audit, stores.organisations, now),
        auth_configs=auth_configs,
        authentication=Authentication(tokens, logins, required),
        connections=Connections(
            stores.connections, stores.agents, stores.guardrails, signals, now, enforceable=enforceable
        ),
        credentials=Credentials(stores.credentials, stores.connections, signals, now, enforceable=enforceable),
        guardrails=GuardRails(
            stores.guardrails, stores.connections, signals, now, compiles=compiles, enforceable=enforceable
        ),
        local_login=LocalLogin(stores.principals, accounts, logins, vouchers, check, authenticators, now),
        logins=logins,
        own_logins=OwnLogins(stores.principals, stores.organisations, accounts, logins, tokens),
        second_factors=SecondFactors(
            stores.second_factors, stores.principals, accounts, logins, check, required, authenticators, now
        ),
        sessions=Sessions(stores.sessions, stores.principals, access, recordings, signals, now, executable=enforceable),
        setup_links=SetupLinks(stores.principals, vouchers, api_url, now),
        sign_in=SignIn(stores.principals, stores.organisations, signals, now),
        signals=signals,
        tokens=tokens,
        upkeep=Upkeep(logins, vouchers, stores.idempotency, now),
        users=Users(stores.principals, accounts, logins, signals, now),
        vouchers=vouchers,
        now=now,
    )
