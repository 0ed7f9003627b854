"""Routes of named resources: list, create, show, replace, update and delete, in the same way for each kind.

Every answer carries the version of the resource as `ETag`. A write with `If-Match` changes that version, or is answered
with 412. Without `If-Match`, a write is answered with 409 if another request changed the resource since it was read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Protocol, TypeVar

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from pydantic import create_model

from postern.api.authentication_of_requests import Caller, Use
from postern.api.depends import services_of
from postern.api.paging import ListAnswer, Paging, make_list_answer
from postern.api.resource_kinds import ResourceKind, register
from postern.api.responses import errors
from postern.api.rule_filter_query import search_filter_of
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
        Header(alias="If-Match", description="ETag of the version to change; 412 if the resource has a different one"),
    ] = None,
) -> int | None:
    """Return the version in the request; None if it names none. Raises Invalid."""
    if if_match is None or if_match.strip() == "*":
        return None
    text = if_match.strip().removeprefix("W/").strip('"')
    if not (text.isascii() and text.isdigit() and len(text) < 12):
        raise Invalid('If-Match: must be one ETag of an answer, such as "3"', field="If-Match")
    return int(text)


Version = Annotated[int | None, Depends(version_of)]


def patch_of(request: type[ResourceBody]) -> type[ResourceBody]:
    """Return the body of PATCH: the fields of POST and PUT, none of them required."""
    loose: dict[str, Any] = {}
    for name, field_info in request.model_fields.items():
        if field_info.is_required():
            optional = copy(field_info)
            optional.default = None
            loose[name] = (field_info.annotation | None, optional)  # type: ignore[operator]
    if not loose:
        return request
    return create_model(request.__name__.removesuffix("Request") + "Patch", __base__=request, **loose)


Forced = Annotated[bool, Query(description="Delete it even if it applies to connections")]


class AnswerOf(Protocol[R_contra]):
    def __call__(self, resource: R_contra, services: Services, form: type[AttributeAnswer], /) -> Answer:
        """Return the answer about one resource in this form."""


class Show(Protocol[R_contra]):
    def __call__(self, resource: R_contra, request: Request, caller: Principal, /) -> Awaitable[Answer]:
        """Return the answer to this request about one resource, with the fields that a list leaves out."""


@dataclass(frozen=True, slots=True)
class ResourceOperation:
    """`name` is its name in the API description. `text` describes it for all kinds of resources, and `told_by` is the
    text of a kind that follows. `of_one`: its path identifies a resource."""

    method: str
    name: str
    told_by: str
    failures: Sequence[int]
    status: int = 200
    text: str = ""
    of_one: bool = True


_REPLACES = "Replaces the resource: fields that are left out get their defaults."
_UPDATES = "Changes the given fields; fields that are left out or null keep their values."
OPERATIONS: Mapping[str, ResourceOperation] = {
    "list": ResourceOperation("GET", "list_{many}", "list", (403,), of_one=False),
    "create": ResourceOperation("POST", "create_{one}", "create", (403, 409, 413), 201, of_one=False),
    "show": ResourceOperation("GET", "get_{one}", "show", (403, 404)),
    "replace": ResourceOperation("PUT", "update_{one}", "update", (403, 404, 409, 412, 413), text=_REPLACES),
    "update": ResourceOperation("PATCH", "patch_{one}", "update", (403, 404, 409, 412, 413), text=_UPDATES),
    "delete": ResourceOperation("DELETE", "delete_{one}", "delete", (403, 404, 409, 412), 204),
}
Endpoint = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRoutes(Generic[R]):
    """The routes of one kind of resource.

    List them, by name.
    """

    path: str
    names: tuple[str, str]
    service: Callable[[Services], ResourceService[R]]
    request: type[ResourceBody]
    answer: type[AttributeAnswer]
    texts: Mapping[str, str]
    change: type[ResourceBody] | None = None
    answer_of: AnswerOf[R] | None = None
    show: Show[R] | None = None
    written: Mapping[str, type[AttributeAnswer]] = field(default_factory=dict)
    filters: Callable[..., Awaitable[RuleFilter]] = search_filter_of
    own: Mapping[str, Endpoint] = field(default_factory=dict)
    without: Collection[str] = ()
    key: str = "{nameOrID}"
    name_field: str = "name"

    def add_to(self, router: APIRouter) -> None:
        singular, many = (name.replace("_", "-") for name in self.names)
        register(
            ResourceKind(
                kind=singular,
                folder=many,
                path=router.prefix + self.path,
                request=self.request,
                name_field=self.name_field,
                changes="" if "update" in self.without else "PATCH",
            )
        )
        whole = self.change or self.request
        operations: Mapping[str, tuple[Endpoint, Any]] = {
            "list": (self._list(), ListAnswer[self.answer]),  # type: ignore[name-defined]
            "create": (self._create(), self._form("create")),
            "show": (self._show(), self.answer),
            "replace": (self._change("replace", whole), self._form("replace")),
            "update": (self._change("update", patch_of(whole)), self._form("update")),
            "delete": (self._delete(), None),
        }
        singular, many = self.names
        texts = {"list": "By name.", **self.texts}
        for name, operation in OPERATIONS.items():
            if name in self.without:
                continue
            endpoint, form = operations[name]
            options = {} if name in self.own else {"response_model": form}
            router.add_api_route(
                f"{self.path}/{self.key}" if operation.of_one else self.path,
                self.own.get(name, endpoint),
                methods=[operation.method],
                name=operation.name.format(one=singular, many=many),
                description=f"{operation.text} {texts.get(operation.told_by, '')}".strip(),
                status_code=operation.status,
                responses=errors(*operation.failures),
                **options,
            )

    def _form(self, operation: str) -> type[AttributeAnswer]:
        return self.written.get(operation, self.answer)

    def _row(self, resource: R, services: Services, form: type[AttributeAnswer]) -> Answer:
        return self.answer_of(resource, services, form) if self.answer_of else form.of(resource)

    async def _one(
        self, operation: str, resource: R, request: Request, caller: Principal, response: Response
    ) -> Answer:
        response.headers["ETag"] = etag_of(resource.version)
        if self.show is not None:
            return await self.show(resource, request, caller)
        return self._row(resource, services_of(request), self._form(operation))

    def _list(self) -> Endpoint:
        async def list_them(caller: Caller, services: Use, page: Paging, where: RuleFilter) -> Any:
            listed = await self.service(services).find(caller, page, where)
            return make_list_answer(
                [self._row(resource, services, self.answer) for resource in listed.items], listed, page
            )

        return _annotate(list_them, where=Annotated[RuleFilter, Depends(self.filters)])

    def _create(self) -> Endpoint:
        async def create(body: ResourceBody, caller: Caller, request: Request, response: Response) -> Any:
            resource = await self.service(services_of(request)).create(caller, body.fields())
            return await self._one("create", resource, request, caller, response)

        return _annotate(create, body=self.request)

    def _show(self) -> Endpoint:
        async def get(key: Key, caller: Caller, request: Request, response: Response) -> Any:
            resource = await self.service(services_of(request)).get(caller, key)
            return await self._one("show", resource, request, caller, response)

        return get

    def _change(self, operation: str, body_type: type[ResourceBody]) -> Endpoint:
        async def change(
            key: Key, body: ResourceBody, caller: Caller, request: Request, response: Response, version: Version
        ) -> Any:
            service = self.service(services_of(request))
            write = service.replace if operation == "replace" else service.update
            changed = await write(caller, key, body.fields(), version)
            return await self._one(operation, changed, request, caller, response)

        return _annotate(change, body=body_type)

    def _delete(self) -> Endpoint:
        async def delete(key: Key, caller: Caller, services: Use, version: Version) -> None:
            await self.service(services).remove(caller, key, version)

        return delete


def _annotate(endpoint: Endpoint, **types: Any) -> Endpoint:
    """Return the endpoint with different types of its parameters, which FastAPI reads from the function."""
    endpoint.__annotations__.update(types)
    return endpoint
