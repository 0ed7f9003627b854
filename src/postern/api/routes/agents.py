"""Agents."""

from __future__ import annotations

from fastapi import APIRouter

from postern.api.auth import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.route import Route
from postern.api.schemas.users import AgentAnswer

router = APIRouter(prefix="/agents", tags=["Agents"], route_class=Route)


@router.get("", responses=errors())
async def list_agents(caller: Caller, services: Use, page: Paging) -> ListAnswer[AgentAnswer]:
    """By name."""
    found = await services.agents.find(caller, page)
    shown = [AgentAnswer.of(agent, online=services.agents.is_online(agent)) for agent in found.items]
    return listed(shown, found, page)


@router.get("/{nameOrID}", responses=errors(404))
async def get_agent(nameOrID: str, caller: Caller, services: Use) -> AgentAnswer:  # noqa: N803 - the spec's name
    agent = await services.agents.get(caller, nameOrID)
    return AgentAnswer.of(agent, online=services.agents.is_online(agent))
