"""Agents: the processes that reach targets, and their keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.schemas.targets.agent_schemas import AgentAnswer, AgentRequest, AgentStatus, IssuedAgentKeyAnswer
from postern.domain.targets.agent import Agent
from postern.services.bundle import Services
from postern.services.targets.agent_keys import IssuedAgentKey

router = APIRouter(prefix="/agents", tags=["Agents"], route_class=AuditedRoute)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


@router.get("", responses=errors())
async def list_agents(
    caller: Caller,
    services: Use,
    page: Paging,
    status: AgentStatus | None = None,
    search: Annotated[str | None, Query(description="Part of the name")] = None,
) -> ListAnswer[AgentAnswer]:
    """By name."""
    online = None if status is None else status is AgentStatus.CONNECTED
    found = await services.agents.find(caller, page, online=online, search=search)
    return listed([_answer(agent, services) for agent in found.items], found, page)


@router.post("", status_code=201, responses=errors(403, 409, 413))
async def create_agent(body: AgentRequest, caller: Caller, services: Use) -> IssuedAgentKeyAnswer:
    """The key is shown this once; the store keeps the SHA-256 of its secret."""
    return _issued(await services.agent_keys.create(caller, body.name, body.mode), services)


@router.get("/{nameOrID}", responses=errors(404))
async def get_agent(key: Key, caller: Caller, services: Use) -> AgentAnswer:
    return _answer(await services.agents.get(caller, key), services)


@router.delete("/{nameOrID}", status_code=204, responses=errors(403, 404, 409))
async def delete_agent(key: Key, caller: Caller, services: Use) -> None:
    """Its key and its tunnels end at once. 409 while connections name it; what an embedded agent declared itself goes
    with it."""
    await services.agent_keys.remove(caller, key)


@router.post("/{nameOrID}/key", responses=errors(403, 404))
async def renew_agent_key(key: Key, caller: Caller, services: Use) -> IssuedAgentKeyAnswer:
    """A new key, shown this once. The one before it ends at once, and so do the agent's tunnels."""
    return _issued(await services.agent_keys.renew(caller, key), services)


@router.post("/{nameOrID}/drain", status_code=204, responses=errors(403, 404))
async def drain_agent(key: Key, caller: Caller, services: Use) -> None:
    """Its processes take no new sessions, and end when those that they have are over: before an update, or before its
    host goes down. Whoever starts it again brings it back."""
    await services.agent_keys.drain(caller, key)


def _answer(agent: Agent, services: Services) -> AgentAnswer:
    return AgentAnswer.of(agent, online=services.agents.is_online(agent))


def _issued(issued: IssuedAgentKey, services: Services) -> IssuedAgentKeyAnswer:
    return IssuedAgentKeyAnswer(**_answer(issued.agent, services).model_dump(), key=issued.key.reveal())
