"""What chats show of a review, and which users they know.

A Card is the same for each chat: its texts are as users wrote them, without control characters; each chat escapes them
in its own syntax.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from postern.domain.durations import duration_text
from postern.domain.reviews.review import (
    ApprovalRequirement,
    Choice,
    Person,
    Review,
    ReviewKind,
    Vote,
)
from postern.domain.reviews.review_status import ReviewStatus
from postern.domain.text import one_line, printable

MAX_NAME = 200  # characters of a name, a rule or a group that are shown
MAX_REASON = 1_000
MAX_VOICES = 10  # that are shown, the last ones

_ASKS = {
    ReviewKind.ONETIME: "asks to run a script on",
    ReviewKind.JIT: "asks for access to",
    ReviewKind.STATEMENT: "asks to run a statement on",
}


@dataclass(frozen=True, slots=True)
class Card:
    """A review as a chat shows it. `facts` are (label, value).

    `input`: the script or statement, None where it is hidden or there is none. `is_open`: a decision is awaited;
    `may_force`: some group can approve alone.
    """

    review_id: UUID
    title: str
    state: str
    facts: tuple[tuple[str, str], ...]
    input: str | None
    url: str
    is_open: bool
    may_force: bool


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """The message in which a sink showed a review. `channel` and `reference` identify it: in Slack its channel and
    `ts`; for mail, the Message-ID."""

    sink_id: UUID
    review_id: UUID
    channel: str
    reference: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ChatLink:
    """The link of a chat account to the principal who proved it.

    `realm` is the chat's application, by a digest of its workspace, its id, its address and its signing secret: a link
    is not valid for any other sender that claims to be that chat.
    """

    id: UUID
    org_id: UUID
    realm: str
    chat_id: str
    principal_id: UUID
    email: str
    created_at: datetime


def card_of(review: Review, script: str | None, url: str, *, with_input: bool, with_estimate: bool = False) -> Card:
    """Return the card. `script` is the session's, for a review of one, whose `input` has its arguments.

    `url` is the page where it is decided. `with_estimate`: for users who can review alone; the owner could learn from
    it what they cannot read.
    """
    # In this order: a script may hold what looks like arguments, and these no line that looks like a script.
    content = "\n\n".join(part for part in (review.input, script) if part)
    return Card(
        review.id,
        f"{_person_name(review.owner)} {_ASKS[review.kind]} {_short(review.connection)}",
        _state(review),
        tuple(_facts(review, with_estimate=with_estimate)),
        printable(content) if content and with_input else None,
        url,
        review.status is ReviewStatus.PENDING,
        bool(review.force_groups),
    )


def _facts(review: Review, *, with_estimate: bool) -> list[tuple[str, str]]:
    facts = [
        ("Requested by", _person_name(review.owner)),
        ("Connection", _short(review.connection)),
        ("From", _short(_client(review))),
    ]
    if review.makers:
        facts.append(("Login method created by", ", ".join(map(_person_name, review.makers))))
    if review.reason:
        facts.append(("Reason", one_line(review.reason)[:MAX_REASON]))
    if review.access_duration:
        facts.append(("For", duration_text(review.access_duration)))
    if review.time_window is not None:
        facts.append(("Within", str(review.time_window)))
    if review.estimate is not None:
        facts.append(("Rows", rows_of(review.estimate) if with_estimate else "counted; see the page"))
    facts += [("Required approvals", demand_text(demand)) for demand in review.demands]
    facts.append(("Requested at", moment(review.created_at)))
    if review.status is ReviewStatus.PENDING:
        facts.append(("Decide before", moment(review.expires_at)))
    return facts + [("Vote", _describe_vote(voice)) for voice in review.voices[-MAX_VOICES:]]


def _client(review: Review) -> str:
    """Describe the client that the review is for."""
    means = review.binding.means if review.credential is None else f"credential {review.credential.username}"
    return f"{review.binding.source} by {means}" + (", requested in advance" if review.is_in_advance else "")


def rows_of(estimate: Mapping[str, object]) -> str:
    """Describe the row estimate."""
    lines = estimate.get("said")
    return (
        "; ".join(one_line(str(line)) for line in lines)[:MAX_REASON] if isinstance(lines, list) and lines else "none"
    )


def demand_text(demand: ApprovalRequirement) -> str:
    groups = ", ".join(_short(name) for name in demand.groups) or "no group"
    how = "one member of each of" if demand.all_groups else f"{demand.min_approvals} of"
    if demand.all_groups and demand.min_approvals > len(demand.groups):
        how = f"{demand.min_approvals} users, {how}"
    named = f" (rule {_short(demand.rule)})" if demand.rule else ""
    forced = ", ".join(_short(name) for name in demand.force_groups)
    return f"{how} {groups}{named}" + (f"; {forced} can force approval" if forced else "")


def moment(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _state(review: Review) -> str:
    if review.status is ReviewStatus.PENDING:
        agreed = sum(1 for voice in review.voices)
        return "Waiting for a decision" if not agreed else f"{agreed} approved; waiting for more"
    if review.refusal is not None:
        return f"{review.status} by {_person_name(review.refusal.reviewer)}"
    if review.voices and review.status is ReviewStatus.APPROVED:
        until = f", until {moment(review.revoke_at)}" if review.revoke_at is not None else ""
        forced = " (forced)" if any(voice.forced for voice in review.voices) else ""
        return f"APPROVED{forced} by {', '.join(_person_name(voice.reviewer) for voice in review.voices)}{until}"
    if review.withdrawal_reason:
        return f"{review.status}: {_short(review.withdrawal_reason)}"
    return str(review.status)


def _describe_vote(vote: Vote) -> str:
    marks = [mark for mark, there in (("forced", vote.forced), ("own request", vote.own)) if there]
    marked = f" ({', '.join(marks)})" if marks else ""
    comment = f": {one_line(vote.comment)[:MAX_REASON]}" if vote.comment else ""
    return f"{vote.choice}{marked} by {_person_name(vote.reviewer)}, {moment(vote.at)}{comment}"


def _person_name(person: Person) -> str:
    """Return the address, which is unique; names are chosen freely."""
    return _short(person.email or person.subject or person.name)


def _short(text: str) -> str:
    clean = one_line(text)
    return clean if len(clean) <= MAX_NAME else clean[: MAX_NAME - 1] + "…"


@dataclass(frozen=True, slots=True)
class Press:
    """A user pressed a button of a message. `trigger` allows a form to be opened, for three seconds."""

    user: str
    channel: str
    review_id: UUID
    choice: Choice
    force: bool
    trigger: str


@dataclass(frozen=True, slots=True)
class Reasoned:
    """A user sent the form that asks for a reason. `form` is the value that it carries."""

    user: str
    form: str
    reason: str


@dataclass(frozen=True, slots=True)
class Introduced:
    """A user gave a code that links their account; `in_form` says how."""

    user: str
    code: str
    in_form: bool


Interaction = Press | Reasoned | Introduced
