"""`postern masking` by flags and names, against a real gateway's API."""

from __future__ import annotations

import pytest
from tests.support.served import Served

pytestmark = pytest.mark.ci


@pytest.fixture
def shop(gate: Served) -> Served:
    """Logged in, with two connections."""
    gate.log_in()
    for name in ("shop", "store"):
        gate.run(gate.world.add_connection(name))
    return gate


def test_preset_is_the_beginning_of_a_rule(shop: Served) -> None:
    presets = {one["name"]: one for one in shop.json("masking", "presets")}
    recommended = presets["recommended"]
    made = shop.json("masking", "create", "data", "--preset", "recommended", "--connection", "shop")
    assert made["connection_ids"] == [shop.json("connections", "show", "shop")["id"]]
    for name in ("columns", "strategy", "strictness", "supported_entity_types"):
        assert made[name] == recommended[name]
    assert (made["strictness"], "EMAIL_ADDRESS" in str(made["supported_entity_types"])) == ("strict", True)
    other = shop.json("masking", "create", "less", "--preset", "recommended", "--strictness", "best_effort")
    assert (other["strictness"], other["columns"]) == ("best_effort", recommended["columns"])
    masked = shop.ok("masking", "test", "data", "mail ann@example.com", "--cell", "users.password_hash=abc")
    assert "ann@example.com" not in masked.stdout
    assert "abc" not in masked.stdout


@pytest.mark.parametrize("preset", ["recommended", "secrets", "pseudonyms"])
def test_every_preset_can_be_saved(shop: Served, preset: str) -> None:
    assert shop.json("masking", "create", f"of {preset}", "--preset", preset)["connection_ids"] == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("create", "x", "--preset", "none"), 5, "`postern masking presets` lists them"),
        (("create", "x", "--column", "a", "--connection", "none"), 5, "no connection"),
        (("create", "x", "--pattern", "BADGE"), 2, "--pattern: needs NAME=REGEX"),
        (("create", "x", "--pattern", "A=b", "--pattern", "A=c"), 2, "A is given twice"),
        (("create", "x", "--type", "NOTHING"), 1, "'NOTHING' is not known"),
        (("create", "x", "--strategy", "hide"), 2, "'hide' is not one of"),
        (("update", "none", "--column", "a"), 5, "no masking rule 'none'"),
        (("update", "none"), 2, "nothing to change"),
    ],
)
def test_wrong_rule_is_refused_with_what_to_do(shop: Served, arguments: tuple[str, ...], code: int, says: str) -> None:
    refused = shop.cli("masking", *arguments)
    assert (refused.exit_code, says in refused.stderr) == (code, True), refused.stderr
