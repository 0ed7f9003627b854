"""Agents run on uvloop, and the gateway's own agent may not: both behave differently at the end of connections."""

from __future__ import annotations

import asyncio

import pytest
import uvloop


@pytest.fixture(params=["asyncio", "uvloop"])
def event_loop_policy(request: pytest.FixtureRequest) -> asyncio.AbstractEventLoopPolicy:
    return uvloop.EventLoopPolicy() if request.param == "uvloop" else asyncio.DefaultEventLoopPolicy()
