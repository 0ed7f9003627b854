"""Users and groups in SCIM's form: the supported attributes, and no others.

Undeclared attributes of the core schemas are dropped, as RFC 7644 section 3.3 allows; the published schemas list the
declared ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from uuid import UUID

from pydantic import Field
from scim2_models import (
    URN,
    AuthenticationScheme,
    Bulk,
    CaseExact,
    ChangePassword,
    ComplexAttribute,
    ETag,
    Filter,
    Meta,
    Mutability,
    Patch,
    Reference,
    Required,
    Resource,
    ResourceType,
    Returned,
    ScimPolicy,
    ServiceProviderConfig,
    Sort,
    Uniqueness,
)

from postern.api.scim.scim_mount import PREFIX
from postern.domain.identity.principal import Account, PrincipalStatus
from postern.domain.lists import MAX_LIMIT
from postern.errors import Invalid
from postern.services.identity.provisioning import ProvisionedGroup, ProvisionedUser

# Values that the provisioning services of large identity providers send, beyond the letter of the standard.
POLICY = ScimPolicy(
    unknown=ScimPolicy.Unknown.ignore,
    remove_value_as_filter=ScimPolicy.RemoveValue.apply,
    unmatched_path_filter=ScimPolicy.UnmatchedPathFilter.create,
)


class Email(ComplexAttribute):
    """The e-mail address: the primary one, or the first. Its type is `work`, so that filters find it."""

    value: str | None = None
    type: Annotated[str | None, Mutability.read_only, Returned.request] = None
    primary: Annotated[bool | None, Mutability.read_only, Returned.request] = None


class User(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, Uniqueness.server, Required.true] = None
    display_name: Annotated[str | None, Required.true] = None  # `completed` sets it if the request does not
    active: Annotated[bool | None, Required.true] = None
    emails: list[Email] | None = None


class Member(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable, CaseExact.true] = None
    ref: Annotated[Reference[User] | None, Mutability.immutable] = Field(
        None, serialization_alias="$ref", validation_alias="$ref"
    )
    type: Annotated[str | None, Mutability.immutable] = Field(None, examples=["User"])


class Group(Resource[Any]):
    """A group. `members` are those that SCIM added."""

    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Uniqueness.server, Required.true, CaseExact.true] = None
    members: list[Member] | None = None


MODELS: tuple[type[Resource[Any]], ...] = (User, Group)


def resource_types(base: str) -> list[ResourceType]:
    """Return the description. `base` is the address of the API, without PREFIX."""
    found_resource_types = [ResourceType.from_resource(model) for model in MODELS]
    for resource_type in found_resource_types:
        resource_type.meta = Meta(
            resource_type="ResourceType", location=f"{base}{PREFIX}/ResourceTypes/{resource_type.id}"
        )
    return found_resource_types


def schemas(base: str) -> list[Any]:
    described: list[Any] = [User.to_schema(), Group.to_schema()]
    for schema in described:
        schema.meta = Meta(resource_type="Schema", location=f"{base}{PREFIX}/Schemas/{schema.id}")
    return described


def service_provider_config(base: str) -> ServiceProviderConfig:
    bearer = AuthenticationScheme(
        type=AuthenticationScheme.Type.oauthbearertoken,
        name="API key",
        description="An API key of an administrator, as `Authorization: Bearer` or `Api-Key`",
        primary=True,
    )
    return ServiceProviderConfig(
        patch=Patch(supported=True),
        bulk=Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=Filter(supported=True, max_results=MAX_LIMIT),
        change_password=ChangePassword(supported=False),
        sort=Sort(supported=False),
        etag=ETag(supported=False),
        authentication_schemes=[bearer],
        meta=Meta(resource_type="ServiceProviderConfig", location=f"{base}{PREFIX}/ServiceProviderConfig"),
    )


def user_of(account: Account, base: str) -> User:
    principal = account.principal
    has_email = "@" in principal.email
    return User(
        id=str(principal.id),
        external_id=account.external_id,
        user_name=account.user_name or principal.email,
        display_name=principal.name,
        active=principal.status is not PrincipalStatus.INACTIVE,
        emails=[Email(value=principal.email, type="work", primary=True)] if has_email else None,
        meta=Meta(resource_type="User", created=account.created_at, location=f"{base}{PREFIX}/Users/{principal.id}"),
    )


def group_of(provisioned: ProvisionedGroup, base: str) -> Group:
    group = provisioned.group
    members = [
        Member(
            value=str(member.id),
            ref=Reference[User](f"{base}{PREFIX}/Users/{member.id}"),
            type="User",
        )
        for member in provisioned.members
    ]
    return Group(
        id=str(group.id),
        external_id=group.external_id,
        display_name=group.name,
        members=members or None,
        meta=Meta(resource_type="Group", created=group.created_at, location=f"{base}{PREFIX}/Groups/{group.id}"),
    )


def fill_defaults(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a user, with what our schema requires and the core schema does not: active by
    default, and with a display name from the parts of the name, or else the user name."""
    lowered = {key.lower() for key in payload}
    whole = dict(payload)
    if "active" not in lowered or payload.get("active", "") is None:
        whole["active"] = True
    if not lowered & {"displayname"} or not payload.get("displayName", " "):
        whole["displayName"] = _name(payload.get("name")) or payload.get("userName")
    return whole


def make_provisioned_user(user: User, payload: Mapping[str, Any]) -> ProvisionedUser:
    """Return the user that a request describes. `payload` is its body, which says which of several addresses is the
    primary one."""
    user_name = user.user_name or ""
    email = _email(user, payload) or (user_name if "@" in user_name else "")
    return ProvisionedUser(
        user_name=user_name,
        name=user.display_name or "",
        email=email,
        active=user.active is not False,
        external_id=user.external_id or None,
    )


def member_ids(group: Group) -> frozenset[UUID]:
    """Raises Invalid."""
    try:
        return frozenset(UUID(member.value or "") for member in group.members or ())
    except ValueError:
        raise Invalid("members: each value must be the id of a user of this gateway", field="members") from None


def _email(user: User, payload: Mapping[str, Any]) -> str:
    emails = payload.get("emails")
    for entry in emails if isinstance(emails, list) else ():
        if isinstance(entry, dict) and entry.get("primary") is True and isinstance(entry.get("value"), str):
            return str(entry["value"])
    return next((email.value for email in user.emails or () if email.value), "")


def _name(name: Any) -> str:
    if not isinstance(name, dict):
        return ""
    parts = [name.get("formatted")] if name.get("formatted") else [name.get("givenName"), name.get("familyName")]
    return " ".join(" ".join(str(part).split()) for part in parts if isinstance(part, str))[:255]
