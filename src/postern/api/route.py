"""What every route of the API is: found fast, and described with the ways to say who one is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Scope

from postern.api.authentication_of_requests import SECURITY, asks_who


class Route(APIRoute):
    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        if asks_who(endpoint):
            options["openapi_extra"] = {**(options.get("openapi_extra") or {}), "security": SECURITY}
        super().__init__(path, endpoint, **options)
        self._given = options
        self._begins = path.partition("{")[0]

    def below(self, prefix: str) -> Route:
        """The same route at another place, named as its function is."""
        options = {**self._given, "generate_unique_id_function": _operation_id}
        return type(self)(prefix + self.path, self.endpoint, **options)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        # The framework asks one route after another, each by a regular expression. How a path begins rules out nearly
        # all of more than a hundred, at a tenth of that.
        if not scope["path"].startswith(self._begins):
            return Match.NONE, {}
        return super().matches(scope)


def _operation_id(route: APIRoute) -> str:
    return route.name
