"""Queries of SCIM lists: one filter, a page, and the attributes to return."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Query
from scim2_models import (
    Context,
    InvalidFilterException,
    ListResponse,
    Resource,
    ResponseParameters,
    ScimFilter,
)
from scim2_models.path import CompareOperator, Comparison

from postern.api.schemas.common import storable
from postern.api.scim.scim_errors import ScimResponse
from postern.domain.lists import MAX_LIMIT, Page
from postern.errors import NotFound

Model = TypeVar("Model", bound=Resource[Any])
_MAX_TEXT = 2_000
_MAX_START = 1_000_000  # a provider reads a whole directory, and SCIM 2.0 has no cursors


@dataclass(frozen=True, slots=True)
class ScimQuery:
    """The parameters of RFC 7644 section 3.4.2; `start` counts from 1."""

    filter: str | None
    start: int
    count: int
    attributes: str | None
    excluded: str | None

    @property
    def page(self) -> Page:
        return Page(self.count, self.start - 1)


async def read_query(
    filter: Annotated[str | None, Query(max_length=_MAX_TEXT, description='Such as userName eq "ann"')] = None,  # noqa: A002
    startIndex: Annotated[int, Query(le=_MAX_START, description="Counts from 1")] = 1,  # noqa: N803
    count: Annotated[int, Query(description=f"At most {MAX_LIMIT}")] = MAX_LIMIT,
    attributes: Annotated[str | None, Query(max_length=_MAX_TEXT)] = None,
    excludedAttributes: Annotated[str | None, Query(max_length=_MAX_TEXT)] = None,  # noqa: N803
) -> ScimQuery:
    """Clamp numbers to the limits (RFC 7644 section 3.4.2.4)."""
    return ScimQuery(filter, max(1, startIndex), min(max(0, count), MAX_LIMIT), attributes, excludedAttributes)


def equal_to(model: type[Model], text: str | None, attributes: dict[str, str]) -> dict[str, str]:
    """Return the one comparison of a filter, as {internal name: value}; `attributes` are internal names by their
    names in lower case. Raises InvalidFilterException for anything else, so that no filter is ever ignored."""
    if text is None:
        return {}
    parsed = of_model(ScimFilter, model)(text).ast
    if not isinstance(parsed, Comparison) or parsed.op is not CompareOperator.eq or not isinstance(parsed.value, str):
        raise InvalidFilterException(
            detail=f"this filter is not supported; compare one attribute with eq: {', '.join(sorted(attributes))}"
        )
    path = parsed.attr_path
    name = attributes.get(".".join(filter(None, (path.attr, path.sub_attr))).lower())
    if name is None:
        raise InvalidFilterException(
            detail=f"this filter is not supported; compare one attribute with eq: {', '.join(sorted(attributes))}"
        )
    if not storable(parsed.value):
        raise InvalidFilterException(detail="the filter's value has a NUL character or half of a surrogate pair")
    return {name: parsed.value}


def render_resource(
    resource: Resource[Any], context: Context, query: ScimQuery | None = None, status: int = 200
) -> ScimResponse:
    """Return one resource, with its address."""
    body = resource.model_dump(scim_ctx=context, response_parameters=_selection(type(resource), query))
    location = body.get("meta", {}).get("location")
    return ScimResponse(body, status_code=status, headers={"Location": location} if location else None)


def make_list_response(model: type[Model], resources: list[Any], total: int, query: ScimQuery) -> ScimResponse:
    response = of_model(ListResponse, model)(
        total_results=total, start_index=query.start, items_per_page=len(resources), resources=resources
    )
    return ScimResponse(
        response.model_dump(scim_ctx=Context.RESOURCE_QUERY_RESPONSE, response_parameters=_selection(model, query))
    )


def of_model(generic: Any, model: type[Any]) -> Any:
    """Return `generic[model]`, if the model is known at run time only."""
    return generic[model]


def identifier(text: str) -> UUID:
    """Raises NotFound."""
    try:
        return UUID(text)
    except ValueError:
        raise NotFound(f"there is no resource {text!r}") from None


def _selection(model: type[Any], query: ScimQuery | None) -> ResponseParameters[Any] | None:
    if query is None or not (query.attributes or query.excluded):
        return None
    selected = {"attributes": query.attributes, "excluded_attributes": query.excluded}
    parsed: ResponseParameters[Any] = of_model(ResponseParameters, model).model_validate(
        {name: value for name, value in selected.items() if value}
    )
    return parsed
