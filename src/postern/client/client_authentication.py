"""Logins and their lifetime (spec 4.7)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, cast

import httpx

from postern.client.client_http import Http
from postern.client.client_shapes import Device, PublicServerInfo
from postern.domain.secret import Secret
from postern.errors import Unavailable


@dataclass(frozen=True, slots=True)
class SecondFactorTicket:
    """The password was right, and a second factor is needed. `kinds` are those of the account: totp, webauthn."""

    secret: Secret
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class LoginState:
    """The validity of a token; times are the gateway's. `life` is from now to `expires_at`. Without a login, as with an
    API key, there are no times."""

    email: str
    expires_at: datetime | None
    ends_at: datetime | None
    life: timedelta | None
    must_enrol: bool


class ClientAuthentication:
    def __init__(self, http: Http) -> None:
        self._http = http

    def public_info(self, organization: str | None = None) -> PublicServerInfo:
        query = {"organization": organization}
        return cast(PublicServerInfo, self._http.call("GET", "/publicserverinfo", query=query))

    def password(self, email: str, password: Secret, organization: str | None = None) -> Secret | SecondFactorTicket:
        """Log in; return the token, or a ticket for `second_factor`. Raises Unauthenticated for a wrong e-mail address
        or password."""
        body = {"email": email, "password": password.reveal()} | _organization_field(organization)
        answer = self._http.send("POST", "/localauth/login", body=body)
        if "Token" not in answer.headers:
            reply = self._body(answer)
            if reply.get("ticket"):
                kinds = frozenset(str(factor.get("kind")) for factor in reply.get("factors") or ())
                return SecondFactorTicket(Secret(str(reply["ticket"])), kinds)
        return self._token(answer)

    def second_factor(self, ticket: SecondFactorTicket, code: Secret) -> Secret:
        """Complete a login. `code` is of an authenticator app, or a recovery code. Raises Unauthenticated if it is
        wrong."""
        text = "".join(code.reveal().split())
        kind = "totp" if text.isdigit() else "recovery"
        body = {"ticket": ticket.secret.reveal(), "kind": kind, "code": text}
        return self._token(self._http.send("POST", "/localauth/second-factor", body=body))

    def begin_browser(self, method: str, redirect: str, code_challenge: str, organization: str | None = None) -> str:
        """Return the URL where a browser logs in by `oidc` or `saml`."""
        query = {"redirect": redirect, "code_challenge": code_challenge, "organization": organization}
        answer = self._http.call("GET", "/saml/login" if method == "saml" else "/login", query=query)
        return str(answer["login_url"])

    def exchange(self, code: Secret, code_verifier: Secret) -> Secret:
        """Return the token for the code that the browser brought back."""
        body = {"code": code.reveal(), "code_verifier": code_verifier.reveal()}
        return self._token(self._http.send("POST", "/login/exchange", body=body))

    def begin_device(self, organization: str | None = None) -> Device:
        return cast(Device, self._http.call("POST", "/login/device", body=_organization_field(organization)))

    def poll_device(self, device_code: Secret) -> Secret | None:
        """Return the token; None until the user has confirmed the code. Raises TooMany if polled too often, Denied if
        the user rejected it, Unauthenticated if the code has expired."""
        answer = self._http.send("POST", "/login/device/token", body={"device_code": device_code.reveal()})
        return None if answer.status_code == httpx.codes.ACCEPTED else self._token(answer)

    def exchange_token(self, token: Secret, organization: str | None = None, rule: str | None = None) -> Secret:
        """Exchange the token of a CI system, or of another issuer, for a login (RFC 8693). Raises Unauthenticated if no
        federation rule accepts it."""
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token": token.reveal(),
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
        } | _organization_field(organization)
        answer = self._http.send("POST", "/federation/login", form=form if rule is None else {**form, "rule": rule})
        try:
            return Secret(str(self._body(answer)["access_token"]))
        except KeyError:
            raise self._strange() from None

    def session(self) -> LoginState:
        return self._state(self._http.send("GET", "/login/session"))

    def refresh(self) -> tuple[Secret, LoginState]:
        """Return a token that is valid for longer, of the same login."""
        answer = self._http.send("POST", "/login/refresh")
        return self._token(answer), self._state(answer)

    def logout(self) -> None:
        self._http.call("POST", "/logout")

    def end_all(self) -> int:
        """End all logins of this user, this one too. Return how many there were."""
        return int(self._http.call("DELETE", "/logins")["ended"])

    def change_password(self, current: Secret, new: Secret) -> Secret:
        """Change the password; all other logins end. Return the new token."""
        body = {"current_password": current.reveal(), "new_password": new.reveal()}
        return self._token(self._http.send("PUT", "/users/self/password", body=body))

    def _token(self, answer: httpx.Response) -> Secret:
        token = answer.headers.get("Token")
        if not token:
            raise Unavailable(f"{self._http.api_url} did not return a token; check the address")
        return Secret(token)

    def _state(self, answer: httpx.Response) -> LoginState:
        body = self._body(answer)
        try:
            expires_at, ends_at = _moment(body.get("expires_at")), _moment(body.get("ends_at"))
            email = str(body["email"])
        except (KeyError, ValueError, TypeError):
            raise self._strange() from None
        life = expires_at - _date(answer) if expires_at else None
        return LoginState(email, expires_at, ends_at, life, bool(body.get("must_enrol_second_factor")))

    def _body(self, answer: httpx.Response) -> dict[str, Any]:
        try:
            body = answer.json()
        except ValueError:
            raise self._strange() from None
        if not isinstance(body, dict):
            raise self._strange()
        return body

    def _strange(self) -> Unavailable:
        return Unavailable(f"the answer of {self._http.api_url} is not from Postern's API; check the address")


def _organization_field(organization: str | None) -> dict[str, str]:
    return {} if organization is None else {"organization": organization}


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _date(answer: httpx.Response) -> datetime:
    """Return the time by the gateway's clock, since this machine's can be wrong."""
    try:
        return parsedate_to_datetime(answer.headers["Date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return datetime.now(UTC)
