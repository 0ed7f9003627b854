"""`postern admin access-rules` and `postern access` against the real API over HTTP."""

from __future__ import annotations

import pytest
from tests.support.served import ANN, ROOT, Served

pytestmark = pytest.mark.ci


@pytest.fixture
def root(gate: Served) -> Served:
    gate.log_in()
    agent = gate.run(gate.world.add_agent())
    gate.run(gate.world.add_connection("shop", agent))
    gate.run(gate.world.add_connection("staging", agent, connection_tags={"stage": "test"}))
    return gate


def test_what_is_wrong_is_said(root: Served) -> None:
    create = ("admin", "access-rules", "create", "x")
    assert root.cli(*create).exit_code == 2
    unknown = root.cli(*create, "--group", "dba", "--connection", "shpo")
    assert (unknown.exit_code, "there is no connection 'shpo'" in unknown.stderr) == (1, True)


def test_access_is_explained(root: Served) -> None:
    root.ok("admin", "access-rules", "create", "for dba", "--group", "dba", "--connection", "shop")
    root.ok("admin", "features", "enable", "access-control")
    assert "the access rule 'for dba' is for the group 'dba'" in root.ok("access", "shop", "--user", ANN).stdout
    root.ok("admin", "users", "update", ANN, "--no-groups")
    shown = root.ok("access", "shop", "--user", ANN).stdout
    assert "can use it  no" in shown
    assert "would allow it: for dba, for dba" in shown
    assert root.json("access", "shop")["user"] == ROOT
    root.log_in(ANN)
    hidden, unknown = root.cli("access", "shop"), root.cli("access", "none")
    assert (hidden.exit_code, unknown.exit_code) == (5, 5)
    assert hidden.stderr.replace("shop", "none") == unknown.stderr
    assert root.cli("access", "shop", "--user", ROOT).exit_code == 4
