"""A Login: a user is logged in from one client until it ends. Every access token belongs to one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from postern.domain.identity.federation import FederatedLogin
from postern.domain.secret import Secret


class LoginMethod(StrEnum):
    """How a login was opened. An organisation's users log in by one of AUTH_METHODS; FEDERATION is for programs."""

    LOCAL = "local"
    OIDC = "oidc"
    SAML = "saml"
    LDAP = "ldap"
    FEDERATION = "federation"


AUTH_METHODS = (LoginMethod.LOCAL, LoginMethod.OIDC, LoginMethod.SAML, LoginMethod.LDAP)
PASSWORD_METHODS = (LoginMethod.LOCAL, LoginMethod.LDAP)  # the gateway asks for the password, and for second factors


class ClientKind(StrEnum):
    """The kind of client. WEB holds its token in a cookie that scripts cannot read; SSH has none, and its login ends
    with its connection; the others send it themselves."""

    WEB = "web"
    CLI = "cli"
    API = "api"
    SSH = "ssh"


@dataclass(frozen=True, slots=True)
class Provided:
    """The identity provider's confirmation of a login: until when it is valid, and the token to renew it."""

    expires_at: datetime
    refresh: Secret | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """A login. `expires_at` moves when the token is refreshed, never beyond `ends_at`. Until `fresh_until`, its user
    has proved recently who they are. `federation`: the token of an external issuer that a program logged in with."""

    id: UUID
    org_id: UUID
    user_id: UUID
    method: LoginMethod
    client: ClientKind
    source: str
    user_agent: str
    created_at: datetime
    expires_at: datetime
    ends_at: datetime
    provided: Provided | None = None
    ended_at: datetime | None = None
    fresh_until: datetime | None = None
    federation: FederatedLogin | None = None

    def is_live(self, now: datetime) -> bool:
        return self.ended_at is None and now < min(self.expires_at, self.ends_at)

    def is_fresh(self, now: datetime) -> bool:
        return self.fresh_until is not None and now < self.fresh_until


@dataclass(frozen=True, slots=True)
class BrowserTerminal:
    """A terminal that a user requested in a browser: their login as it was at `requested_at`."""

    login: Login
    requested_at: datetime


class TokenPurpose(StrEnum):
    """The purpose of a one-time token."""

    OIDC_STATE = "oidc-state"  # between /login and /callback
    SAML_REQUEST = "saml-request"  # between /saml/login and /saml/callback
    EXCHANGE = "exchange"  # between the callback and a client that fetches its token
    DEVICE = "device"  # a command line that waits for a login in a browser
    SSH_LOGIN = "ssh-login"  # an SSH client that waits for a login in a browser
    SETUP = "setup"  # a first password, or a new one, set by the holder of the link
    SECOND_FACTOR = "second-factor"  # the password was right; the second factor is missing
    WEBAUTHN = "webauthn"  # a challenge that an authenticator signs
    STEP_UP = "step-up"  # such a challenge, to confirm a login
    FEDERATION = "federation"  # a token of an external issuer that was used, which has no holder
    APP_LOGIN = "app-login"  # a browser on its way to an HTTP application
    CHAT_LINK = "chat-link"  # a user types it in a chat, to prove that the chat account is theirs
    CHAT_FORM = "chat-form"  # a form that was opened in a chat, until it is sent
