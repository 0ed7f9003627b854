"""Routes of named resources: list, create, show, replace, update and delete, in the same way for each kind.

Every answer carries the version of the resource as `ETag`. A write with `If-Match` changes that version, or is answered
with 412. Without `If-Match`, a write is answered with 409 where somebody else changed the resource since it was read.
"""

# No `from __future__ import annotations`: the types of bodies are values here, which FastAPI reads from the functions.

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy
from types import MappingProxyType
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import create_model

from postern.api.authentication_of_requests import Caller, Use
from postern.api.depends import services_of
from postern.api.paging import ListAnswer, Paging, listed
from postern.api.responses import errors
from postern.api.rule_filter_query import filter_of, name_filter_of
from postern.api.schemas.common import Answer, AttributeAnswer, ResourceBody
from postern.domain.identity.principal import Principal
from postern.domain.named_resource import NamedResource
from postern.domain.rules.rule_filter import RuleFilter
from postern.errors import Invalid
from postern.services.bundle import Services
from postern.services.named_resources import ResourceService

R = TypeVar("R", bound=NamedResource)
R_contra = TypeVar("R_contra", bound=NamedResource, contravariant=True)

Key = Annotated[str, Path(alias="nameOrID", description="Name or identifier")]


def etag_of(version: int) -> str:
    return f'"{version}"'


async def version_of(
    if_match: Annotated[
        str | None,
        Header(alias="If-Match", description="The ETag of the version to change; 412 if the resource has another one"),
    ] = None,
) -> int | None:
    """Return the version that the request is about; None where it does not say. Raises Invalid."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise Invalid('If-Match: must be one ETag as answers have it, such as "3"', field="If-Match")
    return int(text)


Version = Annotated[int | None, Depends(version_of)]


def patch_of(request: type[ResourceBody]) -> type[ResourceBody]:
    """Return the body of PATCH: the same fields as those of POST and PUT, and none of them required."""
    loose: dict[str, Any] = {}
    for name, field in request.model_fields.items():
        if field.is_required():
            optional = copy(field)
            optional.default = None
            loose[name] = (field.annotation | None, optional)  # type: ignore[operator]
    if not loose:
        return request
    return create_model(request.__name__.removesuffix("Request") + "Patch", __base__=request, **loose)


Forced = Annotated[bool, Query(description="Also one that applies to connections")]


class AnswerOf(Protocol[R_contra]):
    def __call__(self, resource: R_contra, services: Services, form: type[AttributeAnswer], /) -> Answer:
        """Return the answer about one resource, which has this form."""


class Show(Protocol[R_contra]):
    def __call__(self, resource: R_contra, asked: Request, caller: Principal, /) -> Awaitable[Answer]:
        """Return the answer to this request about one resource, with what a list of them leaves out."""


def add_crud(
    router: APIRouter,
    path: str,
    *,
    names: tuple[str, str],
    service: Callable[[Services], ResourceService[R]],
    request: type[ResourceBody],
    answer: type[AttributeAnswer],
    texts: Mapping[str, str],
    change: type[ResourceBody] | None = None,
    show: Show[R] | None = None,
    answer_of: AnswerOf[R] | None = None,
    written: Mapping[str, type[AttributeAnswer]] = MappingProxyType({}),
    remove: Callable[..., Awaitable[None]] | None = None,
    lists_connections: bool = False,
    key: str = "{nameOrID}",
    listing: tuple[Callable[..., Awaitable[Any]], type[Answer]] | None = None,
    is_fixed: bool = False,
) -> None:
    """Add the routes of one kind of resource. `names` are what operations are called by: one, and many. `texts` say of
    an operation (list, create, show, update, delete) what it leads to. `change` is the body of PUT and PATCH, where
    that is not that of POST. `answer_of` makes the answer about one, where that needs more than its fields. `written`
    are answers to writes that show a secret once, by method. `remove` is the route that deletes, where it takes more
    than a name. `lists_connections`: lists can be narrowed to those that are about a connection. `listing` is the route
    that lists, and its answer, where that has more than a page or other filters. `key` is the part of the path that
    says which one: `{nameOrID:path}` where names have slashes. `is_fixed`: no field can change, so there is no PUT and
    no PATCH."""
    one, many = names
    change = change or request
    patch = patch_of(change)
    Where = Annotated[RuleFilter, Depends(filter_of if lists_connections else name_filter_of)]  # noqa: N806 - a type

    answered: AnswerOf[R] = answer_of or (lambda resource, _, form: form.of(resource))

    async def shown(resource: R, asked: Request, caller: Principal, response: Response) -> Answer:
        response.headers["ETag"] = etag_of(resource.version)
        if show is not None:
            return await show(resource, asked, caller)
        return answered(resource, services_of(asked), written.get(asked.method, answer))

    async def list_them(caller: Caller, services: Use, page: Paging, where: Where) -> Any:
        found = await service(services).find(caller, page, where)
        return listed([answered(resource, services, answer) for resource in found.items], found, page)

    async def create(body: request, caller: Caller, asked: Request, response: Response) -> Any:  # type: ignore[valid-type]
        made = await service(services_of(asked)).create(caller, _fields(body))
        return await shown(made, asked, caller, response)

    async def get(key: Key, caller: Caller, asked: Request, response: Response) -> Any:
        return await shown(await service(services_of(asked)).get(caller, key), asked, caller, response)

    async def replace(
        key: Key,
        body: change,  # type: ignore[valid-type]
        caller: Caller,
        asked: Request,
        response: Response,
        version: Version,
    ) -> Any:
        changed = await service(services_of(asked)).replace(caller, key, _fields(body), version)
        return await shown(changed, asked, caller, response)

    async def update(
        key: Key,
        body: patch,  # type: ignore[valid-type]
        caller: Caller,
        asked: Request,
        response: Response,
        version: Version,
    ) -> Any:
        changed = await service(services_of(asked)).update(caller, key, _fields(body), version)
        return await shown(changed, asked, caller, response)

    async def delete(key: Key, caller: Caller, services: Use, version: Version) -> None:
        await service(services).remove(caller, key, version)

    by_key = f"{path}/{key}"
    lists, listed_as = listing or (list_them, ListAnswer[answer])  # type: ignore[valid-type]
    of_list = {"response_model": listed_as, "responses": errors(403)}
    routes: Sequence[tuple[str, str, Callable[..., Any], str, str, Mapping[str, Any]]] = (
        (path, "GET", lists, f"list_{many}", texts.get("list", "By name."), of_list),
        (path, "POST", create, f"create_{one}", texts.get("create", ""), {"status_code": 201}),
        (by_key, "GET", get, f"get_{one}", texts.get("show", ""), {}),
        (by_key, "PUT", replace, f"update_{one}", f"{_REPLACES} {texts.get('update', '')}", {}),
        (by_key, "PATCH", update, f"patch_{one}", f"{_UPDATES} {texts.get('update', '')}", {}),
        (by_key, "DELETE", remove or delete, f"delete_{one}", texts.get("delete", ""), _NO_BODY),
    )
    for place, method, endpoint, name, text, more in routes:
        if is_fixed and method in ("PUT", "PATCH"):
            continue
        form = written.get(method, answer)
        options = {"response_model": form, "responses": errors(*_FAILURES[method]), **more}
        router.add_api_route(place, endpoint, methods=[method], name=name, description=text.strip(), **options)


def _fields(body: ResourceBody) -> dict[str, Any]:
    return body.fields()


_REPLACES = "Replaces the resource: fields that are left out get their defaults."
_UPDATES = "Changes the given fields; fields that are left out or null keep their values."
_NO_BODY: Mapping[str, Any] = {"response_model": None, "status_code": 204}
_FAILURES: Mapping[str, Sequence[int]] = {
    "GET": (403, 404),
    "POST": (403, 409, 413),
    "PUT": (403, 404, 409, 412, 413),
    "PATCH": (403, 404, 409, 412, 413),
    "DELETE": (403, 404, 409, 412),
}
