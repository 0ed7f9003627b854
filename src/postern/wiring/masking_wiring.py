"""Masking for sessions, and for samples."""

from __future__ import annotations

from functools import lru_cache
from typing import cast
from uuid import uuid4

from postern.domain.rules.masking import MODEL_TYPES, DetectedType, MaskingRule
from postern.domain.rules.policy import Policy
from postern.domain.secret import Secret
from postern.errors import Denied
from postern.inspection.masking.catalogue import ORDER
from postern.inspection.masking.masking_interceptor import Masking
from postern.inspection.masking.origins import SessionLineages, SessionOrigins
from postern.inspection.masking.samples import NamedOrigins, SampleRows, SampleTexts
from postern.inspection.masking.statement_facts import NO_FACTS, StatementFacts
from postern.interception.events import Operation
from postern.interception.pipeline import SessionView
from postern.interception.verdicts import Refuse
from postern.protocols.registry import PROTOCOLS
from postern.services.rules.masking_rules import MaskedSamples, Samples

_KEPT = "lineage"


@lru_cache
def _lineage_of(protocol: str) -> SessionLineages | None:
    """Return the process's lineage of a protocol, which caches what it has read; None if it has none."""
    spec = PROTOCOLS.get(protocol)
    if spec is None or spec.dialect is None or spec.dialect.lineage is None:
        return None
    return spec.dialect.lineage()


@lru_cache
def _facts_of(protocol: str) -> StatementFacts:
    spec = PROTOCOLS.get(protocol)
    return NO_FACTS if spec is None or spec.dialect is None or spec.dialect.facts is None else spec.dialect.facts()


def masking(policy: Policy, view: SessionView) -> Masking:
    """Return the interceptor of a session under this policy."""
    key = bytes.fromhex(policy.masking_key.reveal())
    facts = _facts_of(view.connection_subtype)
    return Masking(policy.masked_types, policy.masking, key, _origins(policy, view), policy.access_help, facts)


def _origins(policy: Policy, view: SessionView) -> SessionOrigins | None:
    """Return the session's origins, which stay as long as policies need them, since they must see every statement."""
    asks = any(rule.columns for rule in policy.masking)
    make = _lineage_of(view.connection_subtype) if asks else None
    if make is None:
        view.carried_over.pop(_KEPT, None)
        return None
    stored_origins = view.carried_over.get(_KEPT)
    if stored_origins is not None:
        return cast("SessionOrigins", stored_origins)
    origins = view.carried_over[_KEPT] = make(lambda: view.schema)
    if view.metrics.operations:
        origins.record_gap()
    return origins


def detected_types(models: frozenset[str] = frozenset()) -> tuple[DetectedType, ...]:
    """Return the information types that masking detects, by name, with those that a language model finds here."""
    by_form = [
        DetectedType(
            detector.type,
            (min(form.score for form in detector.forms), max(form.score for form in detector.forms)),
            tuple(word.strip() for word in detector.words.split(",") if word.strip()),
        )
        for detector in ORDER
        if detector.type not in MODEL_TYPES
    ]
    by_model = [DetectedType(kind, None) for kind in MODEL_TYPES if kind in models]
    return tuple(sorted((*by_form, *by_model), key=lambda detected: detected.type))


def masks(rule: MaskingRule, key: Secret, samples: Samples) -> MaskedSamples:
    """Return the masked samples, by the interceptor of sessions. Raises Denied if it would deny them."""
    interceptor = Masking(frozenset(), (rule,), bytes.fromhex(key.reveal()), NamedOrigins())
    view = SessionView(uuid4(), "", frozenset(), "", "", "", {})
    texts = SampleTexts([text.encode("utf-8", "surrogatepass") for text in samples.texts])
    rows = SampleRows(samples.columns, samples.rows)
    for event in (Operation(0, ""), texts, rows):
        verdict = interceptor.see(event, view)
        if isinstance(verdict, Refuse):
            raise Denied(verdict.message)
    return MaskedSamples(
        tuple(text.decode("utf-8", "replace") for text in texts.held),
        rows.visible_rows(),
        dict(view.metrics.info_types),
    )
