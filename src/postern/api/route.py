"""The routes of the API: fast to match, built when first needed, and described with the ways to authenticate."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from postern.api.authentication_of_requests import SECURITY, needs_caller


class Route(APIRoute):
    """The framework's own route is built with the first request for it: to read the parameters of all of them would
    take most of the time in which a gateway starts."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if needs_caller(endpoint):
            options["openapi_extra"] = {**(options.get("openapi_extra") or {}), "security": SECURITY}
        self.path = path
        self.endpoint = endpoint
        self._given = options
        self._begins = path.partition("{")[0]
        self._is_built = False

    def __getattr__(self, name: str) -> Any:
        """Called only for what is not there, such as everything that the framework's constructor sets."""
        if self.__dict__.get("_is_built", True):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self._is_built = True
        super().__init__(self.path, self.endpoint, **self._given)
        return getattr(self, name)

    def below(self, prefix: str) -> Route:
        """Return the same route at a different path, named like its function."""
        options = {**self._given, "generate_unique_id_function": _operation_id}
        return type(self)(prefix + self.path, self.endpoint, **options)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # The framework matches one route after another with a regular expression. The beginning of the path rules out
        # nearly all of more than a hundred, at a tenth of the cost.
        if not scope["path"].startswith(self._begins):
            return Match.NONE, {}
        return super().matches(scope)


def _operation_id(route: APIRoute) -> str:
    return route.name


def routes_below(prefix: str, routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return the same routes with this prefix. Not by `include_router`, which searches for the route of a request again
    at every level of nesting."""
    below: list[BaseRoute] = []
    for route in routes:
        assert isinstance(route, Route), f"{route} is not made with the route class of the API"
        below.append(route.below(prefix))
    return below


class LazyRoutes(BaseRoute):
    """All routes below a prefix. Their modules are imported with the first request for one of them, in a thread, since
    that can take seconds."""

    def __init__(self, prefix: str, load: Callable[[], Sequence[BaseRoute]]) -> None:
        self._prefix = prefix
        self._load = load
        self._loaded: Sequence[BaseRoute] | None = None
        self._loading = asyncio.Lock()

    def load(self) -> Sequence[BaseRoute]:
        """Return the routes; import them at the first call."""
        if self._loaded is None:
            self._loaded = self._load()
        return self._loaded

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        is_below = scope["type"] == "http" and scope["path"].startswith(self._prefix + "/")
        return (Match.FULL if is_below else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._loading:
            routes = await asyncio.to_thread(self.load) if self._loaded is None else self._loaded
        partial: tuple[BaseRoute, Scope] | None = None
        for route in routes:
            match, child_scope = route.matches(scope)
            if match is Match.FULL:
                scope.update(child_scope)
                await route.handle(scope, receive, send)
                return
            if match is Match.PARTIAL and partial is None:
                partial = route, child_scope
        if partial is None:
            raise HTTPException(404)
        scope.update(partial[1])
        await partial[0].handle(scope, receive, send)  # it says which methods it has


def eager(routes: Sequence[BaseRoute]) -> list[BaseRoute]:
    """Return all routes, those that were not loaded yet, too."""
    return [route for one in routes for route in (one.load() if isinstance(one, LazyRoutes) else (one,))]
