"""The allowed names of the groups that give a role."""

from __future__ import annotations

from postern.domain.identity.organisation import Organisation
from postern.domain.identity.principal import RoleGroups
from postern.errors import Invalid
from postern.services.identity.users import checked_groups
from postern.store.ports.common_ports import Signals, Topic


def checked_roles(current: RoleGroups, admin: str | None, auditor: str | None) -> RoleGroups:
    """Return the names. Raises Invalid for a bad name, or one that would give a role to holders of the other."""
    groups = RoleGroups(current.admin if admin is None else admin, current.auditor if auditor is None else auditor)
    for field, name in (("admin_role_name", groups.admin), ("auditor_role_name", groups.auditor)):
        try:
            checked_groups((name,))
        except Invalid as error:
            raise Invalid(f"{field}: {error.message.partition(': ')[2]}", field=field) from None
    if groups.admin == groups.auditor:
        raise Invalid("auditor_role_name: must differ from admin_role_name", field="auditor_role_name")
    if groups.admin == current.auditor:
        raise Invalid("admin_role_name: is the auditors' group now; choose another", field="admin_role_name")
    if groups.auditor == current.admin:
        raise Invalid("auditor_role_name: is the administrators' group now; choose another", field="auditor_role_name")
    return groups


async def tell_of_roles(signals: Signals, before: Organisation, after: Organisation) -> None:
    """Signal a changed role: the sessions of its members are re-checked."""
    if before.role_groups != after.role_groups:
        await signals.publish(Topic.POLICY_CHANGED, org_id=str(after.id))
