"""The form of errors, `{"message": …}`, with the statuses of the table in `postern.errors`.

400: the body cannot be read, lacks a field, has a wrong type, an unknown field or enum value. 422: it is well formed
and breaks a rule, or a query or path parameter is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from postern import errors
from postern.errors import ERROR_HEADER, STEP_UP_REQUIRED, UNREACHABLE, PosternError, StepUpRequired, Unreachable

_SHOWN_PROBLEMS = 3


def status_of(error: Exception) -> int:
    """Return the status of the answer for this error; 500 for an unexpected one."""
    if isinstance(error, RequestValidationError):
        return 400 if _in_body(error.errors()) else 422
    if isinstance(error, HTTPException):
        return error.status_code
    return errors.status_of(error) if isinstance(error, PosternError) else 500


def install(app: FastAPI) -> None:
    for kind in errors.STATUSES:
        app.add_exception_handler(kind, _on_postern_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)


async def response_of(request: Request, error: Exception) -> JSONResponse | None:
    """Return the answer for this error; None for an unexpected one."""
    if isinstance(error, RequestValidationError):
        return await _on_validation_error(request, error)
    if isinstance(error, HTTPException):
        return await _on_http_error(request, error)
    return await _on_postern_error(request, error) if isinstance(error, PosternError) else None


def answer(status: int, message: str) -> JSONResponse:
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
    return JSONResponse({"message": message}, status_code=status, headers=headers)


async def _on_postern_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PosternError)
    response = answer(status_of(error), error.message)
    if isinstance(error, Unreachable):
        response.headers[ERROR_HEADER] = UNREACHABLE
    if isinstance(error, StepUpRequired):
        response.headers[ERROR_HEADER] = STEP_UP_REQUIRED
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response


async def _on_validation_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    problems = [_problem(detail) for detail in error.errors()[:_SHOWN_PROBLEMS]]
    return answer(status_of(error), "; ".join(problems))


async def _on_http_error(request: Request, error: Exception) -> JSONResponse:
    """Answer errors of the framework: unknown paths, wrong methods, bodies that are not JSON."""
    assert isinstance(error, HTTPException)
    messages = {
        404: f"there is no resource at {request.url.path}; check the path",
        405: f"{request.method} is not allowed at {request.url.path}",
        400: "the body is not valid JSON",
    }
    response = answer(error.status_code, messages.get(error.status_code, str(error.detail)))
    response.headers.update(error.headers or {})
    return response


def _in_body(problems: Sequence[Any]) -> bool:
    return any(problem["loc"][:1] == ("body",) for problem in problems)


def _problem(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"][1:])
    if problem["type"] == "json_invalid":
        return "the body is not valid JSON"
    if problem["type"] == "extra_forbidden":
        return f"{where}: unknown field; /api/openapi.json describes the fields"
    if problem["type"] == "missing":
        return f"{where or 'body'}: is required"
    if problem["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return f"{where or 'body'}: must be a JSON object"
    if problem["type"] == "value_error":  # messages of schemas/common.py, which begin with the field
        return ".".join(filter(None, (where, str(problem["ctx"]["error"]))))
    text: str = problem["msg"]
    return f"{where or 'body'}: {text[:1].lower()}{text[1:]}"
