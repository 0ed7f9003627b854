"""Agents whose clock differs from the gateway's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from tests.support.agents import AgentProcess, connected, connection, enrolled
from tests.support.clocks import clock
from tests.support.postgres import PostgresServer
from tests.support.promises import wait_until
from tests.support.running import Gateway, started

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    """Made this minute, and so is its certificate authority."""
    with started("--no-demo") as made:
        yield made


def test_agents_with_clocks_up_to_a_day_off_serve_sessions(gateway: Gateway, target: PostgresServer) -> None:
    before = datetime.now(UTC)
    offsets = {"ahead-hour": "+1h", "behind-hour": "-1h", "ahead-day": "+1d", "behind-day": "-1d"}
    with ExitStack() as stack:
        agents = {
            name: AgentProcess(enrolled(gateway, name), gateway.folder, *clock(offset))
            for name, offset in offsets.items()
        }
        for agent in agents.values():
            stack.callback(agent.stop)
        for name, agent in agents.items():
            agent.until_it_serves()
            connection(gateway, name, name, target.port)
            with connected(gateway, name) as client:
                assert client.execute("select 1").fetchone() == (1,)
            [session] = gateway.sessions("--connection", name)
            began = datetime.fromisoformat(session["start_date"])
            assert abs(datetime.now(UTC) - began) < timedelta(minutes=1), "the gateway's clock counts"
        # It is the agent's own clock that was wrong:
        days = tuple((day - timedelta(days=1)).strftime("%Y-%m-%d") for day in (before, datetime.now(UTC)))
        assert all(line.startswith(days) for line in agents["behind-day"].log.splitlines())


@pytest.mark.parametrize(("offset", "said"), [("-3d", "is not valid yet"), ("+3y", "has expired")])
def test_agent_with_a_clock_further_off_logs_that_the_clock_is_wrong(gateway: Gateway, offset: str, said: str) -> None:
    agent = AgentProcess(enrolled(gateway, f"off{offset[1:]}"), gateway.folder, *clock(offset))
    try:
        wait_until(lambda: "by this machine's clock, which says" in agent.log, 60)
        assert f"its certificate {said} by this machine's clock" in agent.log
        assert "timedatectl" in agent.log
        assert "somebody else" not in agent.log
        assert agent.process.poll() is None, "it tries again: the clock may be set right"
        strange = [line for line in agent.log.splitlines() if not line[:4].isdecimal()]
        assert not strange, "gRPC writes lines of its own"
    finally:
        agent.stop()
