"""Connections whose requests are signed with the agent's own identity at a cloud."""

from __future__ import annotations

import base64

import pytest
from tests.agent.test_secrets import order

from postern.agent.agent_policy import ANYTHING, LocalPolicy, ReferencePattern
from postern.agent.secret_files import SecretFiles
from postern.agent.secrets import ResolvedSecrets, Resolver
from postern.errors import Denied, PosternError, Unavailable
from postern.integrations.secrets.sources import Sources

KEY = "envvar:AWS_ACCESS_KEY_ID"


async def resolve(
    secret: dict[str, str], *, subtype: str = "dynamodb", policy: LocalPolicy = ANYTHING, is_owner: bool = True
) -> ResolvedSecrets:
    resolver = Resolver(Sources({}) if is_owner else None, SecretFiles({}), policy)
    return await resolver.resolve(order(secret, subtype))


async def test_reference_instead_of_a_key_is_the_agents_identity() -> None:
    secrets = await resolve({KEY: "_identity:aws:"})
    assert (secrets.identity, secrets.values) == ("aws", {})


async def test_keys_are_no_identity_whatever_they_contain() -> None:
    secrets = await resolve({KEY: base64.b64encode(b"_identity:aws:").decode()})
    assert secrets.identity == ""
    assert secrets.values["AWS_ACCESS_KEY_ID"].reveal() == "_identity:aws:"


ALLOWED = LocalPolicy(references=(ReferencePattern.read("_identity:aws"),))
OTHERS = LocalPolicy(references=(ReferencePattern.read("_vaultkv2:kv/*"),))


@pytest.mark.parametrize(
    ("secret", "more", "error", "reason"),
    [
        ({KEY: "_identity:aws:"}, {"policy": OTHERS}, Denied, "the agent's policy does not allow"),
        ({KEY: "_identity:aws:"}, {"is_owner": False}, Unavailable, "cannot use secrets of the gateway's machine"),
        (
            {KEY: "_identity:aws:"},
            {"subtype": "postgres"},
            Unavailable,
            "only protocols whose requests the agent signs",
        ),
        ({KEY: "_identity:gcp:"}, {}, Unavailable, "write _identity:aws:"),
        ({KEY: "_identity:aws:", "envvar:PASS": "_identity:aws:"}, {}, Unavailable, "only 'envvar:PASS' can be"),
        ({"envvar:AWS_SECRET_ACCESS_KEY": "_identity:aws:"}, {}, Unavailable, "only 'envvar:PASS' can be"),
    ],
)
async def test_identity_is_limited_as_references_are(
    secret: dict[str, str], more: dict[str, object], error: type[PosternError], reason: str
) -> None:
    with pytest.raises(error, match=reason):
        await resolve(secret, **more)  # type: ignore[arg-type]


async def test_policy_can_allow_the_identity() -> None:
    assert (await resolve({KEY: "_identity:aws:"}, policy=ALLOWED)).identity == "aws"
