"""Agents: the processes that reach targets, and their keys."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from postern.api.audited import AuditedRoute
from postern.api.authentication_of_requests import Caller, Use
from postern.api.crud import Key, ResourceRoutes, Version, etag_of
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.responses import errors
from postern.api.schemas.targets.agent_schemas import AgentAnswer, AgentRequest, AgentStatus, IssuedAgentKeyAnswer
from postern.domain.targets.agent import Agent
from postern.services.bundle import Services
from postern.services.targets.agent_keys import AgentFilter

router = APIRouter(tags=["Agents"], route_class=AuditedRoute)


async def list_agents(
    caller: Caller,
    services: Use,
    page: Paging,
    name: Annotated[str | None, Query(max_length=128, description="Exactly this name")] = None,
    status: AgentStatus | None = None,
    search: Annotated[str | None, Query(description="Part of the name")] = None,
) -> ListAnswer[AgentAnswer]:
    online = None if status is None else status is AgentStatus.CONNECTED
    listed = await services.agent_keys.search(caller, AgentFilter(name, search), page, online)
    return make_list_answer([_answer(agent, services) for agent in listed.items], listed, page)


def _answer(agent: Agent, services: Services, _form: object = None) -> AgentAnswer:
    return AgentAnswer.from_agent(agent, online=services.agents.is_online(agent))


ResourceRoutes(
    path="/agents",
    names=("agent", "agents"),
    service=lambda services: services.agent_keys,
    request=AgentRequest,
    answer=AgentAnswer,
    written={"create": IssuedAgentKeyAnswer},
    answer_of=_answer,
    texts={
        "create": "The key is shown only once; the store contains the SHA-256 of its secret.",
        "delete": "Its key and its tunnels end at once. 409 while connections name it; connections that an embedded "
        "agent declared itself are deleted, too.",
    },
    without=("replace", "update"),
    own={"list": list_agents},
).add_to(router)


@router.post("/agents/{nameOrID}/key", response_model=IssuedAgentKeyAnswer, responses=errors(403, 404, 409, 412))
async def renew_agent_key(key: Key, caller: Caller, services: Use, version: Version, response: Response) -> AgentAnswer:
    """Create a new key, shown only once. The old one stops working at once, and the agent's tunnels end."""
    agent = await services.agent_keys.renew(caller, key, version)
    response.headers["ETag"] = etag_of(agent.version)
    return _answer(agent, services)


@router.post("/agents/{nameOrID}/drain", status_code=204, responses=errors(403, 404))
async def drain_agent(key: Key, caller: Caller, services: Use) -> None:
    """Drain the agent: its processes accept no new sessions, and terminate when their sessions have ended. Use it
    before an update, or before its host goes down. Starting the agent again makes it available."""
    await services.agent_keys.drain(caller, key)
