"""Masking as sessions have it, and as samples are tried."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol, cast
from uuid import uuid4

from postern.domain.dialect import DIALECTS
from postern.domain.masking import MaskingRule
from postern.domain.policy import Policy
from postern.domain.secret import Secret
from postern.domain.target_schema import TargetSchema
from postern.errors import Denied
from postern.inspection.lineage.lineage import Lineage
from postern.inspection.lineage.session import SessionLineage
from postern.inspection.masking.interceptor import Masking
from postern.inspection.masking.origins import Origins
from postern.inspection.masking.samples import NamedOrigins, SampleRows, SampleTexts
from postern.interception.events import Operation
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import Refuse
from postern.services.masking_rules import Masked, Samples

_KEPT = "lineage"


class SessionOrigins(Origins, Protocol):
    def missed(self) -> None:
        """Statements were let through that this was not told of."""


_Schema = Callable[[], TargetSchema | None]
_Make = Callable[[_Schema], SessionOrigins]


def _postgres() -> _Make:
    lineage = Lineage()
    return lambda schema: SessionLineage(lineage, schema)


def _mysql() -> _Make:
    # A process loads it where it is asked for: sqlglot takes half a second.
    from postern.inspection.lineage.mysql.lineage import MySqlLineage
    from postern.inspection.lineage.mysql.session import MySqlSessionLineage

    lineage = MySqlLineage()
    return lambda schema: MySqlSessionLineage(lineage, schema)


# By the name of the dialect.
_LINEAGES: Mapping[str, Callable[[], _Make]] = {"postgres": _postgres, "mysql": _mysql}


@lru_cache
def _lineage_of(dialect: str) -> _Make | None:
    """One for each process, as it keeps what it has read."""
    made = _LINEAGES.get(dialect)
    return None if made is None else made()


def masking(policy: Policy, view: SessionView) -> Masking:
    """The interceptor of a session, under this policy from here on."""
    key = bytes.fromhex(policy.masking_key.reveal())
    return Masking(policy.masked_types, policy.masking, key, _origins(policy, view), policy.access_help)


def _origins(policy: Policy, view: SessionView) -> SessionOrigins | None:
    """One that stays as long as policies need it: it must hear of every statement."""
    asks = any(rule.columns for rule in policy.masking)
    make = _lineage_of(DIALECTS.get(view.connection_subtype, "")) if asks else None
    if make is None:
        view.kept.pop(_KEPT, None)
        return None
    kept = view.kept.get(_KEPT)
    if kept is not None:
        return cast("SessionOrigins", kept)
    found = view.kept[_KEPT] = make(lambda: view.schema)
    if view.metrics.operations:
        found.missed()
    return found


def masks(rule: MaskingRule, key: Secret, samples: Samples) -> Masked:
    """What a rule makes of samples, by the interceptor of sessions. Raises Denied where it would refuse them."""
    interceptor = Masking(frozenset(), (rule,), bytes.fromhex(key.reveal()), NamedOrigins())
    view = SessionView(uuid4(), "", frozenset(), "", "", "", {})
    texts = SampleTexts([text.encode("utf-8", "surrogatepass") for text in samples.texts])
    rows = SampleRows(samples.columns, samples.rows)
    for event in (Operation(0, ""), texts, rows):
        verdict = interceptor.see(event, view)
        if isinstance(verdict, Refuse):
            raise Denied(verdict.message)
    return Masked(
        tuple(text.decode("utf-8", "replace") for text in texts.held), rows.shown(), dict(view.metrics.info_types)
    )
