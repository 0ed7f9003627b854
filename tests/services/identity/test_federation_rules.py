"""Which federation rules are accepted: none that would let in programs of strangers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.world import World

from postern.domain.identity.principal import Principal
from postern.errors import Denied, Invalid
from postern.services.bundle import Services

GITHUB = "https://token.actions.githubusercontent.com"
GITLAB = "https://gitlab.com"
OWN = "https://gitlab.example.com"
GATEWAY = "https://gateway.example.com:7480"
SHOP = {"repository": ["acme/shop"]}


@pytest.fixture
def services(world: World) -> Services:
    return world.services()


@pytest.fixture
async def root(world: World, services: Services) -> Principal:
    root = await world.add_user("root", "admin")
    await services.service_accounts.create(root, {"subject": "deploy"})
    return root


async def create(services: Services, root: Principal, **fields: Any) -> None:
    rule = {"name": "shop", "service_account": "deploy", "issuer_url": GITHUB, "audience": GATEWAY, "claims": SHOP}
    await services.federation_rules.create(root, {**rule, **fields})


ACCEPTED: dict[str, tuple[str, dict[str, list[str]]]] = {
    "a repository": (GITHUB, SHOP),
    "all repositories of an owner": (GITHUB, {"repository": ["acme/*"]}),
    "an owner": (GITHUB, {"repository_owner": ["acme"], "ref": ["refs/heads/main"]}),
    "an owner by number": (GITHUB, {"repository_owner_id": ["1234"]}),
    "a subject": (GITHUB, {"sub": ["repo:acme/shop:environment:production"]}),
    "subjects of an owner": (GITHUB, {"sub": ["repo:acme/*:ref:refs/heads/main"]}),
    "a group of GitLab": (GITLAB, {"namespace_path": ["acme/teams"]}),
    "projects of GitLab": (GITLAB, {"project_path": ["acme/*"], "ref_protected": ["true"]}),
    "a subject of GitLab": (GITLAB, {"sub": ["project_path:acme/shop:ref_type:branch:ref:main"]}),
    "any claim of an own issuer": (OWN, {"ref_protected": ["true"]}),
}


@pytest.mark.parametrize("case", ACCEPTED)
async def test_rules_that_name_an_owner(services: Services, root: Principal, case: str) -> None:
    issuer, claims = ACCEPTED[case]
    await create(services, root, issuer_url=issuer, claims=claims)


STRANGERS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "nothing but the branch": (GITHUB, {"ref": ["refs/heads/main"]}),
    "nothing but the environment": (GITHUB, {"environment": ["production"]}),
    "an actor, who can also run another's workflow": (GITHUB, {"actor": ["ann"]}),
    "a workflow, which others can call": (GITHUB, {"job_workflow_ref": ["acme/ci/.github/workflows/d.yml@main"]}),
    "any owner": (GITHUB, {"repository": ["*/shop"]}),
    "owners with this beginning": (GITHUB, {"repository": ["acme*/shop"]}),
    "an owner with this beginning": (GITHUB, {"repository_owner": ["acme*"]}),
    "one owner, or any": (GITHUB, {"repository": ["acme/shop", "*/shop"]}),
    "any subject on main": (GITHUB, {"sub": ["repo:*/*:ref:refs/heads/main"]}),
    "a subject without a repository": (GITHUB, {"sub": ["repo:acme"]}),
    "a subject of a repository's own format": (GITHUB, {"sub": ["environment:production"]}),
    "a subject with the owner elsewhere": (GITHUB, {"sub": ["environment:repo:acme/shop"]}),
    "the issuer with a slash": (GITHUB + "/", {"ref": ["refs/heads/main"]}),
    "the issuer in capitals": (GITHUB.upper().replace("HTTPS", "https"), {"ref": ["refs/heads/main"]}),
    "any project of GitLab": (GITLAB, {"project_path": ["*/*"]}),
    "protected branches of all GitLab": (GITLAB, {"ref_protected": ["true"]}),
}


@pytest.mark.parametrize("case", STRANGERS)
async def test_rules_for_everybodys_issuer_that_name_no_owner(services: Services, root: Principal, case: str) -> None:
    issuer, claims = STRANGERS[case]
    with pytest.raises(
        Invalid, match=r"signs tokens for everybody, so a stranger's program could log in|wildcards alone"
    ):
        await create(services, root, issuer_url=issuer, claims=claims)


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "no claims": ({"claims": {}}, "every program of the issuer could log in"),
    "too many claims": ({"claims": {f"c{number}": ["x"] for number in range(21)}}, "1 to 20"),
    "a claim without values": ({"claims": {**SHOP, "ref": []}}, "ref: 1 to 50 values"),
    "an empty value": ({"claims": {**SHOP, "ref": [""]}}, "1 to 500 printable"),
    "wildcards alone": ({"issuer_url": OWN, "claims": {"sub": ["*:*/*"]}}, "wildcards alone"),
    "two wildcards": ({"claims": {**SHOP, "ref": ["refs/**"]}}, "no two together"),
    "many wildcards": ({"claims": {**SHOP, "ref": ["a*" * 11]}}, "at most 10"),
    "a look-alike": ({"claims": {"repository": ["acme/sh\u043ep"]}}, "printable ASCII"),
    "a name with a blank": ({"claims": {**SHOP, "a b": ["x"]}}, "no blanks"),
    "no audience": ({"audience": ""}, "this gateway's own address"),
    "a long audience": ({"audience": "x" * 501}, "this gateway's own address"),
    "GitHub's own audience": ({"audience": "https://github.com/acme"}, "audience of another service"),
    "the audience of AWS": ({"audience": "sts.amazonaws.com"}, "audience of another service"),
    "the audience of Azure": ({"audience": "api://azureadtokenexchange"}, "audience of another service"),
    "the audience of a cluster": ({"audience": "https://kubernetes.default.svc.cluster.local"}, "of another service"),
    "no account": ({"service_account": "nobody"}, "there is no service account 'nobody'"),
    "a user": ({"service_account": "root@example.com"}, "there is no service account"),
    "plain HTTP": ({"issuer_url": "http://id.example.com"}, "https://"),
    "a private address": ({"issuer_url": "https://10.0.0.7"}, "POSTERN_PROVIDER_NETWORKS"),
    "a metadata service": ({"issuer_url": "https://169.254.169.254"}, "link-local or metadata"),
    "an algorithm with a shared secret": ({"algorithms": ["HS256"]}, "RS256, ES256"),
    "no algorithm": ({"algorithms": []}, "RS256, ES256"),
    "a long login": ({"login_duration_seconds": 3601}, "60 to 3600"),
    "a short login": ({"login_duration_seconds": 59}, "60 to 3600"),
    "keys that are none": ({"jwks": {"keys": []}}, "must be a key set"),
    "a key set that is a key": ({"jwks": {"kty": "RSA"}}, "must be a key set"),
    "a private key": ({"jwks": {"keys": [{"kty": "EC", "d": "x"}]}}, "private or secret key"),
    "a shared secret": ({"jwks": {"keys": [{"kty": "oct", "k": "x"}]}}, "private or secret key"),
    "too many keys": ({"jwks": {"keys": [{"n": "x" * 65_536}]}}, "at most 65536"),
}


@pytest.mark.parametrize("case", INVALID)
async def test_invalid_rules_are_rejected_with_the_reason(services: Services, root: Principal, case: str) -> None:
    fields, why = INVALID[case]
    with pytest.raises(Invalid, match=why):
        await create(services, root, **fields)


async def test_unreachable_issuer_in_a_private_network_can_have_fixed_keys(services: Services, root: Principal) -> None:
    jwks = {"keys": [{"kty": "EC", "crv": "P-256", "x": "x", "y": "y"}]}
    await create(services, root, issuer_url="https://10.0.0.7", jwks=jwks)
    with pytest.raises(Invalid, match="POSTERN_PROVIDER_NETWORKS"):
        await services.federation_rules.update(root, "shop", {"jwks": None})


async def test_update_keeps_the_owner(services: Services, root: Principal) -> None:
    await create(services, root)
    with pytest.raises(Invalid, match="a stranger's program"):
        await services.federation_rules.update(root, "shop", {"claims": {"ref": ["refs/heads/main"]}})


async def test_api_keys_of_administrators_can_delete_rules_and_not_make_them(
    services: Services, root: Principal
) -> None:
    await create(services, root)
    issued = await services.api_keys.create(root, {"name": "robot", "groups": ("admin",)})
    robot = (await services.authentication.caller(issued.secret, address="192.0.2.7")).principal
    with pytest.raises(Denied, match="log in as an administrator"):
        await create(services, robot, name="other")
    with pytest.raises(Denied, match="log in as an administrator"):
        await services.federation_rules.update(robot, "shop", {"allow_admin": True})
    await services.federation_rules.remove(robot, "shop")
