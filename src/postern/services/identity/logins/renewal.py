"""Renewal of logins: asks the identity provider whether it still confirms a user. Logins calls it."""

from __future__ import annotations

from collections.abc import Mapping

from postern.domain.identity.login import Login, LoginMethod, Provided
from postern.domain.identity.principal import Account
from postern.errors import Denied, Invalid, Unauthenticated
from postern.services.identity.logins.logins import Renewal
from postern.services.identity.logins.openid_port import OpenId, provider_of
from postern.services.identity.logins.sign_in import SignIn
from postern.services.server.auth_configs import AuthConfigs


class Renewals:
    """Asks whoever confirmed a login: the OpenID provider or the LDAP directory."""

    def __init__(self, by_method: Mapping[LoginMethod, Renewal]) -> None:
        self._by_method = by_method

    async def renew(self, login: Login, account: Account) -> Provided:
        """Return the new confirmation. Raises Unauthenticated, Unavailable."""
        renewal = self._by_method.get(login.method)
        if renewal is None:
            raise Unauthenticated("this login has ended; log in again")
        return await renewal.renew(login, account)


class OidcRenewal:
    def __init__(self, openid: OpenId, configs: AuthConfigs, sign_in: SignIn) -> None:
        self._openid = openid
        self._configs = configs
        self._sign_in = sign_in

    async def renew(self, login: Login, account: Account) -> Provided:
        """Return the provider's new confirmation. Raises Unauthenticated, Unavailable."""
        config = await provider_of(self._configs, login.org_id)
        provided, principal = login.provided, account.principal
        if login.method is not LoginMethod.OIDC or config is None or config.issuer_url != principal.issuer:
            raise Unauthenticated("the login settings were changed; log in again")
        if provided is None or provided.refresh is None:
            raise Unauthenticated("this login has ended; log in again")
        try:
            granted = await self._openid.renew(config, provided.refresh, principal.subject)
            await self._sign_in.reconfirm(account, granted.identity)
        except (Denied, Invalid) as refused:
            raise Unauthenticated(refused.message) from None
        return granted.provided
