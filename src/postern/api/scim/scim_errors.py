"""Answers of SCIM: its media type, and its own form of errors (RFC 7644 section 3.12)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field, ValidationError
from scim2_models import Error as ScimErrorMessage
from scim2_models import SCIMException

from postern.api import error_answers
from postern.api.audited import AuditedRoute
from postern.api.responses import errors as declared
from postern.api.route import Route
from postern.errors import Conflict, Invalid, Malformed, PosternError

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ScimResponse(JSONResponse):
    media_type = "application/scim+json"


class ScimError(BaseModel):
    schemas: list[str]
    status: str
    scim_type: str | None = Field(None, alias="scimType")
    detail: str


class _ErrorRoute(Route):
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except SCIMException as error:
                return _of_message(error.to_error())
            except RequestValidationError:
                return answer(400, "the body is not a JSON object, or a query parameter is invalid", "invalidSyntax")
            except ValidationError as error:
                return _of_message(ScimErrorMessage.from_validation_error(error.errors()[0]))
            except PosternError as error:
                return _of_error(error)

        return handle_errors


class ScimRoute(AuditedRoute, _ErrorRoute):
    """Route that is audited like every write, with the status of the answer."""


def answer(status: int, detail: str, scim_type: str | None = None) -> ScimResponse:
    body = ScimErrorMessage(status=status, scim_type=scim_type, detail=detail).model_dump()
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return ScimResponse(body, status_code=status, headers=headers)


def scim_errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the given failures, and those of every route. Failures before the server reads a request have the form of
    the rest of the API."""
    return {
        status: {
            "model": ScimError,
            "description": response["description"],
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/HTTPError"}}},
        }
        for status, response in declared(*statuses).items()
    }


def _of_message(message: ScimErrorMessage) -> ScimResponse:
    return answer(message.status or 400, message.detail or "the request is invalid", message.scim_type)


def _of_error(error: PosternError) -> ScimResponse:
    if isinstance(error, Conflict):
        return answer(409, error.message, "uniqueness")
    if isinstance(error, Invalid | Malformed):
        return answer(400, error.message, "invalidValue" if isinstance(error, Invalid) else "invalidSyntax")
    return answer(error_answers.status_of(error), error.message)
