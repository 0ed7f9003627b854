"""Setting up the way in: secrets stay, providers are asked first, and nobody locks everybody out unasked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from tests.support.world import World

from postern.domain.identity.api_key import ApiKey
from postern.domain.identity.auth_config import AuthConfig, LdapConfig, OidcConfig, SamlConfig
from postern.domain.identity.login import LoginMethod
from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.secret import Secret
from postern.errors import Conflict, Denied, Invalid, Unavailable
from postern.services.bundle import Services
from postern.services.server.audit_context import collect_change
from postern.services.server.auth_configs import AuthConfigs
from postern.services.server.auth_settings import AuthFields, LdapFields, OidcFields
from postern.services.server.machine_facts import MachineFacts

ISSUER = "https://login.example.com"


class Provider:
    """At the port: what a provider that was asked says of itself."""

    def __init__(self) -> None:
        self.asked: list[AuthConfig] = []
        self.problem: Exception | None = None

    async def check(self, config: AuthConfig) -> str:
        self.asked.append(config)
        if self.problem is not None:
            raise self.problem
        return config.oidc.issuer_url if config.oidc else "https://saml.example.com"


def oidc(issuer: str = ISSUER, secret: str | None = "s3cr3t", **more: object) -> OidcFields:
    return OidcFields(issuer, "postern", None if secret is None else Secret(secret), **more)  # type: ignore[arg-type]


def fields(given: OidcFields | None = None, **more: object) -> AuthFields:
    return AuthFields(LoginMethod.OIDC, oidc=given or oidc(), **more)  # type: ignore[arg-type]


async def set_up(world: World) -> tuple[Services, Provider, Principal]:
    provider = Provider()
    admin = await world.add_user("root", "admin", password_hash="x")
    return world.services(MachineFacts(provider=provider)), provider, admin


async def test_a_provider_is_asked_and_its_secret_is_kept(world: World) -> None:
    services, provider, admin = await set_up(world)
    config, _ = await services.auth_settings.put(admin, fields(confirm=True))
    assert provider.asked == [config]
    assert await services.auth_configs.of(admin.org_id) == config
    again, _ = await services.auth_settings.put(admin, fields(oidc(secret=None, audience="api"), confirm=True))
    assert again.oidc == replace(config.oidc, audience="api")  # type: ignore[type-var]
    cleared, _ = await services.auth_settings.put(admin, fields(oidc(secret=""), confirm=True))
    assert cleared.oidc is not None
    assert not cleared.oidc.client_secret


async def test_attack_a_kept_secret_is_not_sent_to_another_issuer(world: World) -> None:
    services, _, admin = await set_up(world)
    await services.auth_settings.put(admin, fields(confirm=True))
    with pytest.raises(Invalid, match="give it again"):
        await services.auth_settings.put(admin, fields(oidc("https://evil.example", secret=None), confirm=True))
    with pytest.raises(Invalid, match="metadata address"):
        await services.auth_settings.put(admin, fields(oidc("https://169.254.169.254"), confirm=True))


async def test_what_a_provider_refuses_changes_nothing(world: World) -> None:
    services, provider, admin = await set_up(world)
    provider.problem = Unavailable("the provider does not answer")
    given = fields(confirm=True, admin_role_name="owners")
    with pytest.raises(Unavailable):
        await services.auth_settings.put(admin, given)
    assert await services.auth_settings.get(admin) == (
        AuthConfig(),
        await world.stores.organisations.default(),
    )


async def test_switching_needs_somebody_who_gets_in_afterwards(world: World) -> None:
    services, _, admin = await set_up(world)
    with pytest.raises(Conflict, match="confirm"):
        await services.auth_settings.put(admin, fields())
    assert (await services.auth_configs.of(admin.org_id)).method is LoginMethod.LOCAL
    await services.auth_settings.put(admin, fields(confirm=True))
    with pytest.raises(Conflict):  # another provider locks out as well
        await services.auth_settings.put(admin, fields(oidc("https://other.example")))
    await services.auth_settings.put(admin, fields(provider_name="Ours"))  # nobody is moved by a name
    assert (await services.auth_settings.put(admin, AuthFields(LoginMethod.LOCAL)))[0].method is LoginMethod.LOCAL


@pytest.mark.parametrize("way", ["invited", "provider's", "key"])
async def test_ways_of_an_administrator_that_count(world: World, way: str) -> None:
    services, _, admin = await set_up(world)
    two = replace(await world.add_user("two", "admin"), status=PrincipalStatus.INACTIVE)
    await world.stores.principals.update(Account(two), world.clock())
    key = ApiKey(uuid4(), two.org_id, Account(two), "ci", "pst_", (), two.email, world.clock(), secret=Secret("pst_"))
    await world.stores.api_keys.add(key)
    with pytest.raises(Conflict):  # an inactive administrator's key is none
        await services.auth_settings.put(admin, fields())
    if way == "invited":
        two = replace(two, status=PrincipalStatus.INVITED)
    elif way == "provider's":
        two = replace(two, status=PrincipalStatus.ACTIVE, issuer=ISSUER)
        await world.stores.api_keys.update(replace(key, revoked_at=world.clock()))
    else:
        two = replace(two, status=PrincipalStatus.ACTIVE)
    await world.stores.principals.update(Account(two, version=2), world.clock())
    config, _ = await services.auth_settings.put(admin, fields())
    assert config.method is LoginMethod.OIDC


async def test_only_admins_write_and_only_admins_and_auditors_read(world: World) -> None:
    services, _, _ = await set_up(world)
    auditor, ann = await world.add_user("audrey", "auditor"), await world.add_user("ann")
    await services.auth_settings.get(auditor)
    for principal in (auditor, ann):
        with pytest.raises(Denied):
            await services.auth_settings.put(principal, fields(confirm=True))
    with pytest.raises(Denied):
        await services.auth_settings.get(ann)


@pytest.mark.parametrize(
    "given",
    [
        AuthFields(LoginMethod.OIDC),
        AuthFields(LoginMethod.SAML),
        AuthFields(LoginMethod.SAML, saml=SamlConfig()),
        AuthFields(LoginMethod.SAML, saml=SamlConfig("http://login.example.com/metadata")),
        AuthFields(LoginMethod.SAML, saml=SamlConfig("https://x.example", groups_claim="")),
        AuthFields(LoginMethod.LOCAL, provider_name="a\nb"),
        fields(OidcFields(ISSUER, "")),
        fields(oidc(scopes=("profile",))),
        fields(oidc(scopes=("openid", "a b"))),
        fields(oidc(groups_claim="")),
        fields(oidc(secret="x" * 5000)),
    ],
)
async def test_what_cannot_be_set(world: World, given: AuthFields) -> None:
    services, provider, admin = await set_up(world)
    with pytest.raises(Invalid):
        await services.auth_settings.put(admin, replace(given, confirm=True))
    assert provider.asked == []


async def test_without_a_client_for_providers_only_local_login_can_be_chosen(world: World) -> None:
    admin = await world.add_user("root", "admin")
    with pytest.raises(Invalid, match="cannot log users in"):
        await world.services().auth_settings.put(admin, fields(confirm=True))


async def test_the_machine_brings_local_login_back(world: World) -> None:
    services, _, admin = await set_up(world)
    await services.auth_settings.put(admin, fields(confirm=True))
    with collect_change() as trail:
        before, has_password = await services.auth_settings.reset()
    assert (before.method, has_password) == (LoginMethod.OIDC, True)
    after = await services.auth_configs.of(admin.org_id)
    assert (after.method, after.oidc) == (LoginMethod.LOCAL, before.oidc)
    assert "s3cr3t" not in str(trail)
    await world.stores.principals.set_password(admin.id, None, world.clock())
    assert (await services.auth_settings.reset())[1] is False


async def test_the_environments_provider_is_no_other_organisations(world: World) -> None:
    own = AuthConfig(LoginMethod.OIDC, OidcConfig(ISSUER, "postern", Secret("x")))
    configs = AuthConfigs(world.stores.settings, world.stores.organisations, world.signals, world.clock, own)
    other = Organisation(uuid4(), "acme", world.clock())
    await world.stores.organisations.add(other)
    assert await configs.of(world.org_id) == own
    assert await configs.of(other.id) == AuthConfig()


LDAP = LdapConfig(("ldaps://dc1.example.com",), "dc=example,dc=com", "cn=postern,dc=example,dc=com")


def ldap(secret: str | None = "s3cr3t", **changes: Any) -> AuthFields:
    config = replace(LDAP, **changes)
    return AuthFields(
        LoginMethod.LDAP, ldap=LdapFields(config, None if secret is None else Secret(secret)), confirm=True
    )


async def test_directory_is_asked_and_its_password_is_kept(world: World) -> None:
    services, provider, admin = await set_up(world)
    config, _ = await services.auth_settings.put(admin, ldap())
    assert provider.asked == [config]
    assert await services.auth_configs.of(admin.org_id) == config
    kept, _ = await services.auth_settings.put(admin, ldap(secret=None, user_filter="(mail={user})"))
    assert kept.ldap is not None
    assert kept.ldap.bind_password == Secret("s3cr3t")


@pytest.mark.parametrize(
    "changes", [{"urls": ("ldaps://evil.example.com",)}, {"bind_dn": "cn=other,dc=example,dc=com"}]
)
async def test_attack_a_kept_password_is_not_sent_elsewhere(world: World, changes: dict[str, Any]) -> None:
    services, _, admin = await set_up(world)
    await services.auth_settings.put(admin, ldap())
    with pytest.raises(Invalid, match="give it, also again"):
        await services.auth_settings.put(admin, ldap(secret=None, **changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"urls": ()}, "1 to 5"),
        ({"urls": ("ldaps://x.example.com",) * 6}, "1 to 5"),
        ({"urls": ("ldap://dc1.example.com",)}, "would send passwords in clear"),
        ({"urls": ("https://dc1.example.com",)}, "write it as ldaps://"),
        ({"urls": ("ldaps://dc1.example.com/dc=x",)}, "write it as ldaps://"),
        ({"urls": ("ldaps://user@dc1.example.com",)}, "write it as ldaps://"),
        ({"urls": ("ldaps://10.0.0.7",)}, "POSTERN_PROVIDER_NETWORKS"),
        ({"urls": ("ldaps://169.254.169.254",)}, "metadata"),
        ({"base_dn": ""}, "is required"),
        ({"user_filter": "(uid=ann)"}, r"must have \{user\}"),
        ({"id_attribute": "a)(b"}, "must be the name of an attribute"),
        ({"bind_dn": ""}, "not both"),
        ({"bind_template": "{user}@corp.example"}, "not both"),
        ({"bind_dn": "", "bind_template": "cn=x"}, r"must have \{user\} once"),
        ({"group_filter": "(cn=dba)"}, r"\{dn\} or \{user\}"),
        ({"ca": "not a certificate"}, "PEM"),
        ({"base_dn": "x" * 1_001}, "at most 1000"),
        ({"bind_dn": "a\0b"}, "no control characters"),
    ],
)
async def test_ldap_settings_that_cannot_be_set(world: World, changes: dict[str, Any], why: str) -> None:
    services, _, admin = await set_up(world)
    with pytest.raises(Invalid, match=why):
        await services.auth_settings.put(admin, ldap(**changes))


async def test_start_tls_is_enough_for_a_plain_url(world: World) -> None:
    services, _, admin = await set_up(world)
    await services.auth_settings.put(admin, ldap(urls=("ldap://dc1.example.com",), start_tls=True))
