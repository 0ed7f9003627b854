"""Admission: the check whether a principal can open a connection now. This is the only place that creates a Permit.

Opening a native session costs three statements: the grant, the policy unless it is cached here, and the row of the
session (services/sessions.py).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol
from uuid import UUID

from postern.domain.features import Feature
from postern.domain.identity.credential import Grant, Verifier
from postern.domain.identity.login import BrowserTerminal
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review
from postern.domain.rules.access import explain
from postern.domain.rules.permit import Permit, seal
from postern.domain.rules.policy import Policy
from postern.domain.runbook import RunbookRef
from postern.domain.sessions.session import Verb
from postern.domain.targets.connection import SSH, Connection, Extra, Toggle
from postern.domain.targets.connection_use import ConnectionAccess, ConnectionUse, UseAccess
from postern.errors import Denied, NotFound, PosternError, StepUpRequired, Unauthenticated
from postern.services.admission_reasons import (
    AUDITOR,
    Modes,
    credential_reason,
    extra_reason,
    mode_reason,
    modes_reason,
    principal_reason,
    schema_reason,
    standing_credential_reason,
    terminal_reason,
    unsupported_reason,
    use_reasons,
)
from postern.services.reviews.review_requests import RequestedAccess, ReviewRequests, ReviewRequired, ends
from postern.services.rules.access_control import AccessControl
from postern.services.rules.connection_policies import ConnectionPolicies
from postern.services.rules.network_control import NetworkControl
from postern.services.server.server_features import Features
from postern.store.ports.common_ports import Clock, Signals
from postern.store.ports.target_ports import AccessStore, ConnectionStore, PermitStanding

__all__ = ["REFUSED_LOGIN", "Access", "CredentialEnded", "Grant", "RequestedAccess", "ReviewRequired", "Verifier"]

log = logging.getLogger(__name__)

# One text for an unknown user name, a wrong password, and a connection that is hidden from its user.
REFUSED_LOGIN = "the user name or password is wrong, or the credential is no longer valid"
BROWSER = "browser"

# The verb whose approvals a use needs; looking at a schema needs none.
_VERBS = {
    ConnectionUse.CONNECT: Verb.CONNECT,
    ConnectionUse.EXEC: Verb.EXEC,
    ConnectionUse.RUNBOOKS: Verb.EXEC,
}


class CredentialEnded(Denied):
    """The credential has expired, or was revoked; its owner can issue a new one."""


class RunbookRuleLookup(Protocol):
    async def is_allowed(self, principal: Principal, repository: str, file: str, connection_id: UUID) -> bool:
        """Return whether the rules allow this runbook. Raises Unavailable when the rules cannot be read."""

    async def any_on(self, principal: Principal, connection_id: UUID) -> bool:
        """Return whether the principal can run any runbook on the connection. Raises as `is_allowed`."""

    async def usable(self, principal: Principal, connection_ids: Collection[UUID]) -> Collection[UUID]:
        """Return those connections on which `any_on` is true."""


class RevocableProof(Protocol):
    """A proof of identity that can be revoked while a session uses it, such as an SSH key."""

    async def find_end_reason(self, permit: Permit) -> str | None:
        """Return why the proof behind this permit is no longer valid; None while it is. Raises Unavailable."""


class Access:
    """Admission to connections. `signals` report which policies changed."""

    def __init__(
        self,
        *,
        store: AccessStore,
        connections: ConnectionStore,
        control: AccessControl,
        networks: NetworkControl,
        asking: ReviewRequests,
        features: Features,
        runbooks: RunbookRuleLookup,
        signals: Signals,
        now: Clock,
        enforceable: frozenset[str],
        parsed: frozenset[str] = frozenset(),
        proofs: Mapping[str, RevocableProof] | None = None,
    ) -> None:
        """`enforceable` names the protocols that can be opened, `parsed` those that have a parser; some rules cannot be
        enforced without one.

        `proofs` maps the first word of a permit's `means` to the check that the proof is still valid; BROWSER is for
        terminals in browsers.
        """
        self._enforceable = enforceable
        self._proofs = proofs or {}
        self._runbooks = runbooks
        self._store = store
        self._control = control
        self._networks = networks
        self._asking = asking
        self._features = features
        self._connections = connections
        self._now = now
        self._policies = ConnectionPolicies(store, signals, now, parsed=parsed)

    async def find_grant(self, username: str) -> Grant | None:
        """Return the credential with that user name, not yet checked; None when it is unknown. One statement."""
        return await self._store.find_grant(username)

    async def admit(self, grant: Grant, *, source: str, modes: Modes = ()) -> Permit:
        """Admit a native client that has proved to have the password.

        `source` is the client's address. `modes` are the access modes that an SSH channel needs; other clients need
        `connect`. Raises Denied with a reason for the user, ReviewRequired when reviewers must approve first,
        Unauthenticated when the connection is hidden from its user, and Unavailable when rules or the policy cannot be
        loaded.
        """
        reason = credential_reason(grant.expires_at, grant.revoked_at, self._now())
        if reason is not None:
            raise CredentialEnded(reason)
        await self._features.require(grant.principal.org_id, Feature.NATIVE_CREDENTIALS)
        return await self._admit(
            grant.principal,
            grant.connection,
            Verb.CONNECT,
            Unauthenticated(REFUSED_LOGIN),
            source=source,
            means=f"credential:{grant.credential_id}",
            credential_id=grant.credential_id,
            expires_at=grant.expires_at,
            modes=modes,
        )

    async def admit_principal(
        self,
        principal: Principal,
        connection: str,
        *,
        verb: Verb,
        source: str,
        means: str = "",
        runbook: RunbookRef | None = None,
        expires_at: datetime | None = None,
        modes: Modes = (),
        browser: BrowserTerminal | None = None,
    ) -> Permit:
        """Admit a principal that a token identifies.

        `connection` is a name or id. `means` is the auth method and login, see Caller; without it a principal who needs
        a review is not admitted. `runbook`: the runbook to run. `expires_at`: when the login expires, and the permit
        with it. `modes`: as for `admit`. `browser`: the terminal in a browser that it is for. Raises NotFound also when
        the connection is hidden from them, ReviewRequired, Denied, StepUpRequired, Unavailable.
        """
        found_connection, missing = await self._find_connection(principal, connection)
        return await self._admit(
            principal,
            found_connection,
            verb,
            missing,
            source=source,
            means=means,
            expires_at=expires_at,
            runbook=runbook,
            modes=modes,
            browser=browser,
        )

    async def require_terminal(self, principal: Principal, connection: str, browser: BrowserTerminal) -> Connection:
        """Return the connection whose terminal the principal could open in a browser. Reviewers may still have to
        approve. Raises NotFound also when it is hidden from them, Denied, StepUpRequired, Unavailable."""
        found_connection, missing = await self._find_connection(principal, connection)
        await self._require_allowed(principal, found_connection, (Verb.CONNECT,), missing, None, browser)
        return found_connection

    def narrow(self, permit: Permit, modes: Modes, extra: Extra | None) -> Permit:
        """Return the permit for one SSH channel, valid while its access modes and extra stay enabled.

        Raises Denied.
        """
        connection = permit.connection
        permit = replace(permit, modes=_modes(connection, permit.verb, modes), extra=extra)
        reason = modes_reason(connection, connection, permit.modes)
        if reason is None and extra is not None and not connection.allows(extra):
            reason = extra_reason(connection.name, extra)
        if reason is not None:
            raise Denied(reason)
        return permit

    async def require_runbook(self, principal: Principal, connection: str, runbook: RunbookRef) -> Connection:
        """Return the connection on which the principal could run the runbook, before the runbook is read or disclosed.

        Reviewers may still have to approve. `runbook.commit` does not matter. Raises NotFound also when the connection
        is hidden from them, Denied, Unavailable.
        """
        found_connection, missing = await self._find_connection(principal, connection)
        await self._require_allowed(principal, found_connection, (Verb.EXEC,), missing, runbook)
        return found_connection

    async def _find_connection(self, principal: Principal, connection: str) -> tuple[Connection, NotFound]:
        """Return the connection, and the error to raise where it is hidden from the principal."""
        missing = NotFound(f"there is no connection {connection!r}; check its name")
        found_connection = await self._connections.get(principal.org_id, connection)
        if found_connection is None:
            raise missing
        return found_connection, missing

    async def explain_uses(
        self, principal: Principal, connections: Sequence[Connection]
    ) -> dict[UUID, ConnectionAccess]:
        """Return what the principal can do with connections that it sees, by identifier.

        These are the answers of admission, except that rules which cannot be loaded or enforced are not noticed. Costs
        no statement while rules are cached. Raises Unavailable.
        """
        runnable = await self._runbooks.usable(principal, [connection.id for connection in connections])
        scripts_reason = await self._scripts_reason(principal.org_id)
        answers = {}
        for connection in connections:
            decision = await self._control.decide(principal, connection)
            reasons = use_reasons(connection, principal, scripts_reason, with_runbooks=connection.id in runnable)
            if connection.protocol not in self._enforceable:
                reasons = dict.fromkeys(ConnectionUse, unsupported_reason(connection))
            uses = {use: await self._explain_use(principal, connection, use, reasons[use]) for use in ConnectionUse}
            answers[connection.id] = ConnectionAccess(explain(decision), uses)
        return answers

    async def _scripts_reason(self, org_id: UUID) -> str | None:
        """Return why no scripts run in this organisation; None where they do."""
        try:
            await self._features.require(org_id, Feature.SCRIPT_RUNS)
        except Denied as denial:
            return denial.message
        return None

    async def _explain_use(
        self, principal: Principal, connection: Connection, use: ConnectionUse, reason: str | None
    ) -> UseAccess:
        """Return whether this use is allowed. `reason` is why it is not, whatever approvals are required."""
        if reason is not None:
            return UseAccess(allowed=False, reason=reason)
        verb = _VERBS.get(use)
        try:
            approvals = None if verb is None else await self._asking.describe(principal, connection, verb)
        except Denied as denial:
            return UseAccess(allowed=False, needs_review=True, reason=denial.message)
        return UseAccess(allowed=True, needs_review=approvals is not None, reason=approvals or "")

    async def admit_reviewed(
        self, principal: Principal, review: Review, *, runbook: RunbookRef | None = None
    ) -> Permit:
        """Admit the owner of a reviewed script, rendered from `runbook` if there is one.

        The caller checks that the review lets it run. This checks that its owner is still allowed to run it. Raises
        NotFound, Denied, Unavailable.
        """
        missing = NotFound(f"connection {review.connection!r} was deleted, or you cannot see it")
        connection = await self._connections.get(principal.org_id, str(review.binding.connection_id))
        if connection is None:
            raise missing
        binding = review.binding
        return await self._admit(
            principal,
            connection,
            Verb.EXEC,
            missing,
            source=binding.source,
            means=binding.means,
            review=review,
            runbook=runbook,
        )

    async def admit_target_task(self, principal: Principal, connection: str, *, schema: bool, source: str) -> Permit:
        """Admit a test of a connection, or a look at the `schema` of its target, which `access_schema` enables.

        Neither shows rows, so neither waits for reviewers. A test needs an enabled access mode, runbooks alone
        included, except for administrators, who test what they have not enabled yet. `connection` is a name or id.
        Raises NotFound also when it is hidden from them, Denied, Unavailable.
        """
        found_connection, missing = await self._find_connection(principal, connection)
        await self._require_visible(principal, found_connection, missing)
        reason = principal_reason(principal.is_active)
        if reason is None and schema:
            reason = schema_reason(found_connection)
        if reason is None and not schema and not principal.is_admin:
            reason = await self._shut_reason(principal, found_connection)
        if reason is None and principal.is_auditor:
            reason = AUDITOR
        if reason is not None:
            raise Denied(reason)
        await self._require_network(principal, found_connection, source)
        return Permit(
            principal, found_connection, await self.policy_for(found_connection), Verb.EXEC, source, None, None, seal()
        )

    async def admit_preview(self, principal: Principal, connection: str, *, source: str) -> Permit:
        """Admit a preview of a script, for principals who can run scripts there now or after a review.

        The permit is not for a session. `connection` is a name or id. Raises NotFound also when it is hidden from them,
        Denied, Unavailable.
        """
        await self._features.require(principal.org_id, Feature.SCRIPT_RUNS)
        found_connection, missing = await self._find_connection(principal, connection)
        await self._require_allowed(principal, found_connection, (Verb.EXEC,), missing, None)
        await self._require_network(principal, found_connection, source)
        await self._asking.find_requirements(principal, found_connection, Verb.EXEC)  # denied where reviews are off
        policy = await self.policy_for(found_connection)
        return Permit(principal, found_connection, policy, Verb.EXEC, source, None, None, seal())

    async def _admit(
        self,
        principal: Principal,
        connection: Connection,
        verb: Verb,
        hidden: PosternError,
        *,
        source: str,
        means: str,
        credential_id: UUID | None = None,
        expires_at: datetime | None = None,
        review: Review | None = None,
        runbook: RunbookRef | None = None,
        modes: Modes = (),
        browser: BrowserTerminal | None = None,
    ) -> Permit:
        modes = _modes(connection, verb, modes)
        await self._require_allowed(principal, connection, modes, hidden, runbook, browser)
        await self._require_network(principal, connection, source)
        waited: UUID | None = None
        if review is not None:
            await self._asking.require_same(review, principal, connection, verb)
            waited = review.session_id
        else:
            review = await self._asking.grant(
                principal, connection, verb, source=source, means=means, credential_id=credential_id
            )
            waited = None if review is None else await self._asking.waiting_session(review)
        return Permit(
            principal,
            connection,
            await self.policy_for(connection),
            verb,
            source,
            credential_id,
            ends(expires_at, review, self._now()),
            seal(),
            means=means,
            means_until=None if credential_id is not None else expires_at,
            review_id=None if review is None else review.id,
            session_id=waited,
            runbook=runbook,
            modes=modes,
            in_browser=browser is not None,
        )

    async def _require_allowed(
        self,
        principal: Principal,
        connection: Connection,
        modes: Modes,
        hidden: PosternError,
        runbook: RunbookRef | None,
        browser: BrowserTerminal | None = None,
    ) -> None:
        """Check that the principal is allowed. `hidden` is raised first where they cannot see the connection."""
        await self._require_visible(principal, connection, hidden)
        reason = principal_reason(principal.is_active) or modes_reason(connection, connection, modes, runbook)
        if reason is None and browser is not None:
            reason = terminal_reason(connection, connection)
        if reason is None and principal.is_auditor:
            reason = AUDITOR
        reason = reason or await self._runbook_reason(principal, connection, runbook)
        if reason is None and runbook is not None and runbook.place not in ("", str(connection.place)):
            reason = (
                f"connection {connection.name!r} has a different target than when {runbook.file!r} was rendered; "
                "run it again"
            )
        if reason is not None:
            raise Denied(reason)
        if browser is not None:
            _require_fresh(connection, browser)

    async def _require_network(self, principal: Principal, connection: Connection, source: str) -> None:
        reason = await self._networks.find_denial(principal, connection, source)
        if reason is not None:
            raise Denied(reason)

    async def _runbook_reason(
        self, principal: Principal, connection: Connection, runbook: RunbookRef | None
    ) -> str | None:
        """Return why the runbook rules deny the runbook now; None where they allow it."""
        if runbook is None or await self._runbooks.is_allowed(
            principal, runbook.repository, runbook.file, connection.id
        ):
            return None
        rule = f"no runbook rule allows you to run {runbook.file!r} on connection {connection.name!r}"
        return f"{rule}; ask an administrator"

    async def _shut_reason(self, principal: Principal, connection: Connection) -> str | None:
        """Return why every access mode is closed to the principal; None where one is open."""
        modes = [mode_reason(connection, connection.name, verb) for verb in Verb]
        if not all(modes):
            return None
        by_runbooks = connection.access_mode_runbooks is Toggle.ENABLED
        return None if by_runbooks and await self._runbooks.any_on(principal, connection.id) else modes[0]

    async def _require_visible(self, principal: Principal, connection: Connection, hidden: PosternError) -> None:
        if principal.org_id != connection.org_id:
            raise Denied("the user and the connection belong to different organisations")
        decision = await self._control.decide(principal, connection)
        if not decision.visible:
            log.info("connection hidden by access rules: connection=%s user=%s", connection.name, principal.email)
            raise hidden

    async def policy_for(self, connection: Connection) -> Policy:
        """Return the policy that applies from now on, as `ConnectionPolicies.of` does."""
        return await self._policies.of(connection)

    async def still_allowed(self, permit: Permit) -> str | None:
        """Re-check a live link: return None while it can continue, else the reason to end it.

        One statement, and one more for access that a review gave.
        """
        org_id = permit.principal.org_id
        if permit.credential_id and not await self._features.is_enabled(org_id, Feature.NATIVE_CREDENTIALS):
            return "connection credentials were switched off in this organisation; ask an administrator"
        standing = await self._store.standing(permit.principal.id, permit.connection.id, permit.credential_id)
        reason = standing_credential_reason(permit, standing, self._now())
        if reason is not None:
            return reason
        if standing.access_mode_connect is None:
            return f"connection {permit.connection.name!r} was deleted"
        modes = permit.modes or (permit.verb,)
        disabled_reason = modes_reason(standing, permit.connection, modes, permit.runbook)
        reason = principal_reason(standing.principal_active) or disabled_reason
        if reason is None and permit.in_browser:
            reason = terminal_reason(standing, permit.connection)
        if reason is None and permit.extra is not None and permit.extra not in standing.extras:
            reason = extra_reason(permit.connection.name, permit.extra)
        now = _as_now(permit, standing)
        reason = reason or await self._proof_reason(permit)
        return reason or await self._rules_reason(now) or await self._asking.find_end_reason(now)

    async def _proof_reason(self, permit: Permit) -> str | None:
        proof = self._proofs.get(BROWSER if permit.in_browser else permit.means.partition(":")[0])
        return None if proof is None else await proof.find_end_reason(permit)

    async def _rules_reason(self, permit: Permit) -> str | None:
        """Return why role and rules deny a principal that was admitted, at its address; None while they allow it."""
        decision = await self._control.decide(permit.principal, permit.connection)
        if decision.allowed:
            address_reason = await self._networks.find_denial(permit.principal, permit.connection, permit.source)
            return address_reason or await self._runbook_reason(permit.principal, permit.connection, permit.runbook)
        if permit.principal.is_auditor:
            return AUDITOR
        return f"your access to connection {permit.connection.name!r} has ended; ask an administrator"

    async def renew(self, permit: Permit) -> Permit:
        """Return the permit under the current connection, policy and groups. Raises Denied, Unavailable.

        Access that could not be opened any more is denied: a review is now required that it does not have, or the
        connection has changed its protocol, whose rules are not those of this session. A new agent or secret applies to
        the next session and revokes nothing, except access that was given to the connection's previous target.
        """
        connection = await self._connections.get(permit.principal.org_id, str(permit.connection.id))
        if connection is None:
            raise Denied(f"connection {permit.connection.name!r} was deleted")
        if (connection.type, connection.subtype) != (permit.connection.type, permit.connection.subtype):
            raise Denied(f"connection {connection.name!r} has a different type now; connect again")
        standing = await self._store.standing(permit.principal.id, connection.id, permit.credential_id)
        reason = standing_credential_reason(permit, standing, self._now())
        if reason is not None:
            raise Denied(reason)
        # A credential that is being rotated has a new end; whatever else they logged in with has the one it had.
        expires_at = permit.means_until if permit.credential_id is None else standing.credential_expires_at
        now = replace(_as_now(permit, standing), connection=connection)
        reason = await self._rules_reason(now)
        if reason is not None:
            raise Denied(reason)
        expires_at = ends(expires_at, await self._asking.standing(now), self._now())
        return replace(now, policy=await self.policy_for(connection), expires_at=expires_at)


def _as_now(permit: Permit, standing: PermitStanding) -> Permit:
    """Return the permit with the principal's current groups and the connection's current tags."""
    principal = replace(permit.principal, groups=standing.groups, role_groups=standing.role_groups)
    return replace(
        permit,
        principal=principal,
        connection=replace(permit.connection, connection_tags=standing.connection_tags),
    )


def _modes(connection: Connection, verb: Verb, modes: Modes) -> Modes:
    """Return the access modes to check. Only servers tell a command from a shell; elsewhere the verb decides."""
    return modes if modes and connection.protocol == SSH else (verb,)


def _require_fresh(connection: Connection, browser: BrowserTerminal) -> None:
    """Raises StepUpRequired. A terminal that waited for reviewers was requested by a fresh login; that is enough."""
    if connection.access_fresh_factor is Toggle.ENABLED and not browser.login.is_fresh(browser.requested_at):
        raise StepUpRequired(
            f"connection {connection.name!r} requires that you prove again who you are before each terminal: confirm "
            "your login (POST /api/login/step-up), then open it again"
        )
