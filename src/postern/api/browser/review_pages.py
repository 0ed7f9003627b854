"""The page of a review: plain HTML, no scripts, every value escaped."""

from __future__ import annotations

from dataclasses import dataclass

from fastapi.responses import HTMLResponse
from markupsafe import Markup

from postern.api.browser import pages
from postern.domain.chat import Card

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


def review(card: Card, page: ReviewPage, status: int = 200) -> HTMLResponse:
    facts = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(label, value) for label, value in card.facts)
    markup = Markup("<p>Script or statement:</p><pre>{}</pre>").format(card.input) if card.input else Markup("")
    button = Markup('<button name="answer" value="{}">{}</button>')
    buttons = Markup(" ").join(button.format(answer, _WORDS[answer]) for answer in page.answers)
    content = _CONTENT.format(
        problem=Markup('<p role="alert">{}</p>').format(page.problem) if page.problem else Markup(""),
        title=card.title,
        state=card.state,
        facts=facts,
        input=markup,
        form=_FORM.format(id=card.review_id, csrf=page.csrf_token, buttons=buttons) if buttons else Markup(""),
        email=page.email,
    )
    return pages.page("Review", content, status)


def missing(why: str) -> HTMLResponse:
    return pages.page("Review", Markup("<p>{}</p>").format(why), 404)
