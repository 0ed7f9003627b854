"""The page of a review: plain HTML, no scripts, every value escaped."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from postern.api.browser import pages
from postern.domain.chat import Card
from postern.domain.identity.principal import Principal
from postern.domain.reviews.review import Review, ReviewEvent, after

_CONTENT = Markup(
    "{problem}<p><strong>{title}</strong></p><p>{state}</p><dl>{facts}</dl>{input}{form}"
    "<p>You are logged in as {email}.</p>"
)
_FORM = Markup(
    '<form method="post" action="/api/reviews/page/{id}"><input type="hidden" name="csrf_token" value="{csrf}">'
    '<p><label>Reason<br><textarea name="reason" rows="4" cols="60" maxlength="1000"></textarea></label></p>'
    "<p>{buttons}</p></form>"
)
_WORDS = {"approve": "Approve", "force": "Force approval", "reject": "Reject", "revoke": "Revoke"}


@dataclass(frozen=True, slots=True)
class ReviewPage:
    """The user of the page, and the answers they can give. `problem`: why the last answer failed."""

    email: str
    csrf_token: str
    answers: tuple[str, ...]
    problem: str = ""


def answers(review: Review, principal: Principal) -> tuple[str, ...]:
    """Return the answers that seem possible; the decision itself checks everything."""
    reviews = review.may_review(principal.groups)
    found = []
    if after(review.kind, review.status, ReviewEvent.APPROVED) is not None:
        found += ["approve"] if principal.groups & frozenset(review.groups) else []
        found += ["force"] if principal.groups & frozenset(review.force_groups) else []
    for answer, event in (("reject", ReviewEvent.REJECTED), ("revoke", ReviewEvent.REVOKED)):
        mine = reviews or principal.is_admin or review.binding.principal_id == principal.id
        if mine and after(review.kind, review.status, event) is not None:
            found.append(answer)
    return tuple(found)


def review(card: Card, wanted: ReviewPage, status: int = 200) -> HTMLResponse:
    facts = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(label, value) for label, value in card.facts)
    markup = Markup("<p>Script or statement:</p><pre>{}</pre>").format(card.input) if card.input else Markup("")
    button = Markup('<button name="answer" value="{}">{}</button>')
    buttons = Markup(" ").join(button.format(answer, _WORDS[answer]) for answer in wanted.answers)
    content = _CONTENT.format(
        problem=Markup('<p role="alert">{}</p>').format(wanted.problem) if wanted.problem else Markup(""),
        title=card.title,
        state=card.state,
        facts=facts,
        input=markup,
        form=_FORM.format(id=card.review_id, csrf=wanted.csrf_token, buttons=buttons) if buttons else Markup(""),
        email=wanted.email,
    )
    return pages.page("Review", content, status)


def missing(why: str) -> HTMLResponse:
    return pages.page("Review", Markup("<p>{}</p>").format(why), 404)
