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
from postern.services.identity.groups import Groups
from postern.services.identity.logins import Logins
from postern.services.identity.machines import Machines
from postern.services.identity.passwords import Passwords
from postern.services.identity.provisioning import Provisioning
from postern.services.identity.service_accounts import ServiceAccounts
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
    api_keys: ApiKeys
    audit: Audit
    auth_configs: AuthConfigs
    authentication: Authentication
    connections: Connections
    credentials: Credentials
    groups: Groups
    guardrails: GuardRails
    logins: Logins
    machines: Machines
    provisioning: Provisioning
    service_accounts: ServiceAccounts
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
) -> Services:
    """`enforceable`: the subtypes that have a relay, on which rules take effect and scripts run.

    `compiles`: the check of a pattern, see GuardRails.
    """
    access = Access(stores.access, stores.connections, signals, now)
    tokens = Tokens(stores.signing_keys, signals, now)
    logins = Logins(stores.logins, tokens, now)
    api_keys = ApiKeys(stores.api_keys, stores.principals, signals, now)
    credentials = Credentials(stores.credentials, stores.connections, signals, now, enforceable=enforceable)
    accounts = Accounts(stores.principals, stores.organisations, logins, now, passwords or Passwords())
    users = Users(stores.principals, stores.organisations, accounts, logins, signals, now)
    return Services(
        access=access,
        accounts=accounts,
        agents=Agents(stores.agents, stores.organisations, now),
        api_keys=api_keys,
        audit=Audit(stores.audit, stores.organisations, now),
        auth_configs=AuthConfigs(stores.settings, signals, now),
        authentication=Authentication(tokens, logins, api_keys),
        connections=Connections(
            stores.connections, stores.agents, stores.guardrails, signals, now, enforceable=enforceable
        ),
        credentials=credentials,
        groups=Groups(stores.groups, signals, now),
        guardrails=GuardRails(
            stores.guardrails, stores.connections, signals, now, compiles=compiles, enforceable=enforceable
        ),
        logins=logins,
        machines=Machines(stores.machines, stores.principals, credentials, signals, now),
        provisioning=Provisioning(stores.principals, stores.groups, users, signals, now),
        service_accounts=ServiceAccounts(stores.principals, signals, now),
        sessions=Sessions(stores.sessions, stores.principals, access, recordings, signals, now, executable=enforceable),
        sign_in=SignIn(stores.principals, stores.organisations, signals, now),
        signals=signals,
        tokens=tokens,
        users=users,
        vouchers=Vouchers(stores.vouchers, now),
        now=now,
    )
