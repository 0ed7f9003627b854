"""`postern chat`, and sinks that are chats, against the real API."""

from __future__ import annotations

import pytest
from tests.support.chats import APP, BOT_TOKEN, CHANNEL, SIGNING_SECRET, TEAM
from tests.support.served import Served

pytestmark = pytest.mark.ci

OPTIONS = [f"--option={name}={value}" for name, value in (("channel", CHANNEL), ("app_id", APP), ("team_id", TEAM))]
KEYS = f"bot_token: {BOT_TOKEN}\nsigning_secret: {SIGNING_SECRET}\n"


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    return gate


def test_slack_is_set_up_and_people_are_known_there(root: Served) -> None:
    scope = ("--connection", "shop", "--tag", "env=prod", "--group", "dba")
    root.ok("admin", "sinks", "create", "reviews", "slack", *OPTIONS, *scope, "--keys-stdin", stdin=KEYS)
    shown = root.json("admin", "sinks", "show", "reviews")
    assert shown["address"] == "https://slack.com/api"
    assert shown["options"] == {"channel": CHANNEL, "app_id": APP, "team_id": TEAM}
    assert shown["key_names"] == ["bot_token", "signing_secret"]
    assert shown["scope"] == {"connections": ["shop"], "connection_tags": {"env": "prod"}, "groups": ["dba"]}
    assert BOT_TOKEN not in str(shown)
    code = root.ok("chat", "link")
    assert len(code.stdout.strip()) > 40
    assert "Do not share it" in code.stderr
    email = root.json("whoami")["email"]
    sink = root.run(root.services.sinks.get(root.root, "reviews"))
    root.run(root.services.chat_links.redeem(sink, "U0ROOT", code.stdout))  # as it was typed in Slack
    (made,) = root.json("chat", "list")["data"]
    assert (made["email"], made["chat_id"]) == (email, "U0ROOT")
    assert "U0ROOT" in root.ok("chat", "list").stdout
    root.ok("chat", "unlink", made["id"])
    assert root.json("chat", "list")["data"] == []


def test_secrets_that_cannot_be_read_are_not_repeated(root: Served) -> None:
    wrong = root.cli("admin", "sinks", "create", "reviews", "slack", *OPTIONS, "--keys-stdin", stdin=f"{BOT_TOKEN}\n")
    assert wrong.exit_code == 2
    assert BOT_TOKEN not in wrong.output
