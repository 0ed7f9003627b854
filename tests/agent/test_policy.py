"""The agent policy: what it allows, and that a broken file allows nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from postern.agent import agent_policy
from postern.agent.agent_policy import ANYTHING, LocalPolicy
from postern.domain.reference import Reference
from postern.errors import Denied, Misconfigured


@pytest.mark.parametrize(
    ("target", "host", "port", "fits"),
    [
        ("db.internal:5432", "db.internal", 5432, True),
        ("db.internal:5432", "DB.Internal", 5432, True),
        ("db.internal:5432", "db.internal", 5433, False),
        ("*.svc:*", "orders.svc", 1, True),
        ("*.svc:*", "orders.svc.evil.example", 1, False),
        ("10.1.0.0/16:5432", "10.1.2.3", 5432, True),
        ("10.1.0.0/16:5432", "10.2.2.3", 5432, False),
        ("10.1.2.3:*", "10.1.2.3", 9, True),
        ("[fd00::]/8:5432", "fd00::1", 5432, True),
        ("10.*:*", "10.evil.example", 1, True),  # a pattern of names is one; write a network for addresses
        ("0.0.0.0/0:5432", "fd00::1", 5432, False),
    ],
)
def test_policy_allows_only_matching_targets(target: str, host: str, port: int, fits: bool) -> None:
    limited = LocalPolicy(targets=(target,))
    if fits:
        limited.check_target(host, port)
    else:
        with pytest.raises(Denied, match="agent's policy"):
            limited.check_target(host, port)


@pytest.mark.parametrize(
    ("pattern", "reference", "fits"),
    [
        ("_vaultkv2:kv/shop/*", "_vaultkv2:kv/shop/db:pass", True),
        ("_vaultkv2:kv/shop/*", "_vaultkv2:kv/shop/eu/db:pass", True),
        ("_vaultkv2:kv/shop/*", "_vaultkv2:kv/shop:pass", False),
        ("_vaultkv2:kv/shop/*", "_vaultkv2:kv/shopping/db:pass", False),
        ("_vaultkv2:kv/shop/*", "_vaultkv2:KV/shop/db:pass", False),
        ("_vaultkv2:kv/shop/*", "_vaultkv1:kv/shop/db:pass", False),
        ("_vaultkv2:kv/shop/*", "_vaultkv2:/kv/shop/db:pass", False),
        ("_vaultkv2:*/db", "_vaultkv2:evil:x/db", False),
        ("_envjson", "_envjson:SHOP:pass", True),
        ("_envjson:SHOP", "_envjson:SHOP:pass", True),
        ("_envjson:SHOP:pass", "_envjson:SHOP:pass", True),
        ("_envjson:SHOP:pass", "_envjson:SHOP:other", False),
        ("_cloudprov:prod/*", "_cloudprov:prod/shop:pass", True),
        ("_cloudprov:prod/*", "_aws:prod/shop:pass", False),
        ("_aws:prod/*", "_aws:prod/shop:", True),
        ("_aws:arn:aws:secretsmanager:*:1:secret:prod/*", "_aws:arn:aws:secretsmanager:eu:1:secret:prod/a:pass", True),
        ("_aws:arn:aws:secretsmanager:*:1:secret:prod/*", "_aws:arn:aws:secretsmanager:eu:2:secret:prod/a:pass", False),
        ("_aws:arn:aws:secretsmanager:eu:1:secret:a:x", "_aws:arn:aws:secretsmanager:eu:1:secret:a:pass", False),
        ("_aws:prod/*", "_aws:arn:aws:secretsmanager:eu:1:secret:prod/a:pass", False),
    ],
)
def test_policy_allows_only_matching_secret_references(
    tmp_path: Path, pattern: str, reference: str, fits: bool
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(f'references = ["_gcp:none", "{pattern}"]\n')
    limited = agent_policy.read(file)
    if fits:
        limited.check_reference(Reference.read(reference))
    else:
        with pytest.raises(Denied, match=r"policy does not allow the reference _"):
            limited.check_reference(Reference.read(reference))


def test_missing_list_allows_everything_and_an_empty_list_allows_nothing(tmp_path: Path) -> None:
    ANYTHING.check_connection("shop")
    ANYTHING.check_command("shop")
    assert ANYTHING.shows("HOME")
    ANYTHING.check_reference(Reference.read("_aws:shop:"))
    file = tmp_path / "policy.toml"
    file.write_text(
        'connections = ["shop-*"]\ntargets = []\ncommands = false\nvariables = ["SHOP_*"]\nreferences = []\n'
    )
    found = agent_policy.read(file)
    found.check_connection("shop-demo")
    assert found.shows("SHOP_DB")
    assert not found.shows("HOME")
    with pytest.raises(Denied):
        found.check_connection("billing")
    with pytest.raises(Denied):
        found.check_target("db", 5432)
    with pytest.raises(Denied):
        found.check_command("shop-demo")
    with pytest.raises(Denied):
        found.check_reference(Reference.read("_envjson:SHOP:pass"))


@pytest.mark.parametrize("text", ["", "ssh_agents = []", 'ssh_agents = ["/run/keys/*"]'])
def test_ssh_agent_must_be_listed_exactly(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(Denied):
        agent_policy.read(file).check_ssh_agent("/run/keys/agent")
    file.write_text('ssh_agents = ["/run/keys/agent"]')
    agent_policy.read(file).check_ssh_agent("/run/keys/agent")
    with pytest.raises(Denied):
        ANYTHING.check_ssh_agent("/run/keys/agent")


@pytest.mark.parametrize(
    "text",
    [
        "connections = [",
        'conections = ["shop"]',
        'connections = "shop"',
        "connections = [1]",
        'commands = "no"',
        "hooks = 1",
        'targets = ["db.internal"]',
        'targets = ["db.internal:http"]',
        'references = "_aws"',
        'ssh_agents = "/run/agent"',
        'references = ["vaultkv2:kv/shop/*"]',
        'references = ["*"]',
        'references = ["_vaultkv2:"]',
        'references = ["_vaultkv2:kv/shop:pass:word"]',
    ],
)
def test_unreadable_policy_file_is_misconfigured(tmp_path: Path, text: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text(text)
    with pytest.raises(Misconfigured):
        agent_policy.read(file)
    with pytest.raises(Misconfigured):
        agent_policy.read(tmp_path / "none.toml")
