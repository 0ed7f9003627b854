"""Organisations: created by operators, named and given their roles by their own administrators."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from uuid import UUID, uuid4

from postern.domain.identity.organisation import DEFAULT, MAX_ACCESS_HELP, Organisation
from postern.domain.identity.principal import Account, Principal, PrincipalStatus
from postern.domain.lists import Listed, Page
from postern.domain.targets.agent import Agent, AgentMode
from postern.errors import Conflict, Denied, Invalid, NotFound
from postern.services.identity.setup_links import SetupLink, SetupLinks
from postern.services.identity.users import checked_email, require_person
from postern.services.named_resources import check_version
from postern.services.server.audit_context import record_change
from postern.services.server.operators import Operators
from postern.services.server.organisation_deletion import cut_off
from postern.services.server.role_names import checked_roles, tell_of_roles
from postern.services.targets.agents import EMBEDDED
from postern.store.ports.common_ports import Clock, Signals, Topic
from postern.store.ports.server_ports import (
    Founding,
    OrganisationBootstrap,
    OrganisationDeletionStore,
    OrganisationStore,
)

_NAME = re.compile(r"[^\W_](?:[\w .&'()-]{0,98}[\w.)])")


@dataclass(frozen=True, slots=True)
class OrganisationFields:
    """The fields of a request. None keeps a value."""

    name: str | None = None
    admin_role_name: str | None = None
    auditor_role_name: str | None = None
    access_help: str | None = None


@dataclass(frozen=True, slots=True)
class NewOrganisation:
    """A new organisation. `setup` is shown once: it sets the first administrator's password."""

    organisation: Organisation
    admin: Principal
    setup: SetupLink


class Organisations:
    def __init__(
        self,
        *,
        store: OrganisationStore,
        organisation_bootstrap: OrganisationBootstrap,
        setup_links: SetupLinks,
        operators: Operators,
        signals: Signals,
        now: Clock,
        deletions: OrganisationDeletionStore,
    ) -> None:
        self._store = store
        self._deletions = deletions
        self._organisation_bootstrap = organisation_bootstrap
        self._setup_links = setup_links
        self._operators = operators
        self._signals = signals
        self._now = now

    async def find(self, principal: Principal, page: Page) -> Listed[Organisation]:
        """Return all organisations for operators; others find their own."""
        if await self._operators.include(principal):
            return await self._store.find(page, deleting=True)
        organisation = await self.own(principal)
        return Listed([organisation][page.offset : page.offset + page.limit], 1)

    async def own(self, principal: Principal) -> Organisation:
        """Return the caller's own organisation. Raises NotFound."""
        organisation = await self._store.get(principal.org_id)
        if organisation is None:
            raise NotFound("this organisation was deleted")
        return organisation

    async def is_default(self, principal: Principal) -> bool:
        """Return whether theirs is the default organisation."""
        return await self._operators.is_their_organisation(principal.org_id)

    async def are_several(self) -> bool:
        return (await self._store.find(Page(1))).total > 1

    async def create(
        self, principal: Principal, name: str, admin_email: str, *, embedded_agent: bool = False
    ) -> NewOrganisation:
        """Create an organisation with its role groups and an invited administrator, completely or not at all.

        `embedded_agent`: it can reach targets from this machine's own network; otherwise it needs agents of its own.
        Raises Denied, Invalid, Conflict, TooMany.
        """
        await self._operators.require(principal, "create organisations")
        require_person(principal, "create organisations")  # with each comes a set-up link of an administrator
        now = self._now()
        organisation = Organisation(uuid4(), checked_organisation_name(name), now)
        email = checked_email(admin_email)
        roles = organisation.role_groups
        key = uuid4()
        admin = Principal(
            id=key,
            org_id=organisation.id,
            subject=str(key),
            email=email,
            name=email,
            groups=frozenset({roles.admin}),
            status=PrincipalStatus.INVITED,
            role_groups=roles,
        )
        agent = Agent(uuid4(), organisation.id, EMBEDDED, AgentMode.GATEWAY, None, now) if embedded_agent else None
        setup, one_time_token = await self._setup_links.prepare_for(admin)
        await self._organisation_bootstrap.add(Founding(organisation, Account(admin), one_time_token, agent))
        record_change(None, {"organisation": organisation, "admin": admin.email, "embedded_agent": embedded_agent})
        return NewOrganisation(organisation, admin, setup)

    async def delete(self, principal: Principal, org_id: str, name: str) -> Organisation:
        """Invalidate all access to an organisation at once, and start to delete everything that it owns.

        `name` confirms which one is meant. OrganisationDeleter carries it out, and it cannot be undone. Raises Denied,
        NotFound, Invalid when the name differs, and Conflict: legal holds, or it is already being deleted.
        """
        await self._operators.require(principal, "delete organisations")
        require_person(principal, "delete organisations")
        organisation = await self._with_id(org_id)
        if organisation.name == DEFAULT or organisation.id == principal.org_id:
            raise Conflict(f"the organisation {organisation.name!r} runs this server and cannot be deleted")
        if name != organisation.name:
            raise Invalid(
                f"name: give the organisation's name, {organisation.name!r}, to confirm its deletion", field="name"
            )
        now = self._now()
        summary = await self._deletions.begin(organisation.id, now)
        deleted = replace(organisation, deleting_at=now)
        record_change({"organisation": organisation, **asdict(summary)}, {"organisation": deleted})
        await cut_off(self._deletions, self._signals, organisation.id)
        return deleted

    async def _with_id(self, org_id: str) -> Organisation:
        try:
            organisation = await self._store.get(UUID(org_id))
        except ValueError:
            organisation = None
        if organisation is not None:
            return organisation
        waiting = {str(organisation_row.id): organisation_row for organisation_row in await self._deletions.waiting()}
        if org_id in waiting:
            raise Conflict(f"organisation {waiting[org_id].name!r} is already being deleted")
        raise NotFound(f"there is no organisation {org_id!r}; `postern admin orgs list` shows their ids")

    async def update(
        self, principal: Principal, fields: OrganisationFields, version: int | None = None
    ) -> Organisation:
        """Update the caller's own organisation. Administrators and auditors keep their role under a new name.

        Raises Denied, Invalid, Conflict, PreconditionFailed.
        """
        if not principal.is_admin:
            raise Denied("only administrators can change their organisation")
        current = await self.own(principal)
        check_version(f"organisation {current.name!r}", current.version, version)
        roles = checked_roles(current.role_groups, fields.admin_role_name, fields.auditor_role_name)
        if roles != current.role_groups:
            require_person(principal, "choose which groups give a role")
        organisation = replace(current, role_groups=roles)
        if fields.name is not None and fields.name != current.name:
            if current.name == DEFAULT:
                raise Invalid(f"name: the organisation {DEFAULT!r} keeps its name", field="name")
            organisation = replace(organisation, name=checked_organisation_name(fields.name))
        if fields.access_help is not None:
            organisation = replace(organisation, access_help=_checked_help(fields.access_help))
        if organisation != current:
            organisation = await self._store.update(organisation)
            await tell_of_roles(self._signals, current, organisation)
            if organisation.access_help != current.access_help:
                await self._signals.publish(Topic.POLICY_CHANGED, org_id=str(organisation.id))
        record_change(current, organisation)
        return organisation


def _checked_help(text: str) -> str:
    """Return the help text. Raises Invalid. Terminals show it, so it must have no control characters."""
    if len(text) > MAX_ACCESS_HELP or not text.isprintable():
        raise Invalid(
            f"access_help: at most {MAX_ACCESS_HELP} characters, all printable, in one line",
            field="access_help",
        )
    return text.strip()


def checked_organisation_name(name: str) -> str:
    """Return the name. Raises Invalid."""
    if not _NAME.fullmatch(name) or name != " ".join(name.split()):
        raise Invalid(
            "name: must have 2 to 100 letters, digits, single blanks or any of .&'()-_, "
            "and begin with a letter or digit",
            field="name",
        )
    return name
