"""Keys, tokens and passwords with a characteristic start."""

from __future__ import annotations

import re

from postern.domain.rules.masking import InfoType
from postern.inspection.masking.detector import BEHIND_EDGE, NOT_BEFORE_WORD, Detector, Span, found_form
from postern.inspection.masking.kinds.making import MASK, number_form, token_form

_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
# Characters of a key: base64, headers of encrypted keys, line ends or their escapes.
_KEY_BODY = re.compile(rb"[0-9A-Za-z+/=\s:,.()\\-]*+")
_END = re.compile(rb"-----END [A-Z0-9 ]{0,48}-----")


def _find_private_keys(text: bytes) -> list[Span]:
    """Find keys from BEGIN to END; if the end was cut off, all that can belong to the key."""
    spans: list[Span] = []
    at = 0
    while begin := _BEGIN.search(text, at):
        body = _KEY_BODY.match(text, begin.end())
        limit = body.end() if body is not None else begin.end()
        end = _END.search(text, begin.end(), limit)
        at = end.end() if end is not None else limit
        while end is None and text[at - 1 : at].isspace():
            at -= 1
        spans.append((begin.start(), at))
    return spans


_RUN = rb"0-9A-Za-z_-"
_OUTSIDE = rb"(?<![0-9A-Za-z_-])"

PRIVATE_KEY = Detector(
    InfoType.PRIVATE_KEY,
    (found_form(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY", _find_private_keys, 1.0, MASK),),
)
JSON_WEB_TOKEN = Detector(
    InfoType.JSON_WEB_TOKEN,
    (
        token_form(
            rb"eyJ[" + _RUN + rb"]{7}",
            _OUTSIDE + rb"eyJ[" + _RUN + rb"]{4,}+\.eyJ[" + _RUN + rb"]{4,}+(?:\.[" + _RUN + rb"]*+){1,3}+",
        ),
    ),
)
URL_PASSWORD = Detector(
    InfoType.URL_PASSWORD,
    (
        token_form(
            rb"://[^\s/?#:@\x00]{0,128}:[^\s/?#\x00]",
            rb"://[^\s/?#:@\"'<>\x00]{0,128}:(?!\*{4}@)([^\s/?#\"'<>\x00]{1,256})@",
        ),
    ),
)
AUTHORIZATION_HEADER = Detector(
    InfoType.AUTHORIZATION_HEADER,
    (
        token_form(
            rb"(?i:authorization: ?[a-z]+ [0-9a-z._~+/=-])",
            rb"(?i:authorization: ?[a-z]{1,16} )([0-9A-Za-z._~+/=-]{4,}+)",
            label=rb"(?i:authorization)",
        ),
        token_form(
            rb"(?i:bearer [0-9a-z._~+/=-]{20})", rb"(?i:(?<![a-z])bearer )([0-9A-Za-z._~+/=-]{20,}+)", 0.9
        ),
    ),
)  # fmt: skip
AWS_ACCESS_KEY = Detector(
    InfoType.AWS_ACCESS_KEY,
    (
        token_form(
            rb"A(?:KI|SI|BI|CC)A[A-Z2-7]{16}", BEHIND_EDGE + rb"A(?:KI|SI|BI|CC)A[A-Z2-7]{16}" + NOT_BEFORE_WORD
        ),
        number_form(rb"[0-9A-Za-z+/][0-9A-Za-z+/]{39}", 0.3, lambda key: not key.isdigit()),
    ),
    words="aws secret, secret access key, aws secret access key, secret key, aws key",
)
GITHUB_TOKEN = Detector(
    InfoType.GITHUB_TOKEN,
    (
        token_form(
            rb"gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{22}",
            BEHIND_EDGE + rb"(?:gh[pousr]_[0-9A-Za-z]{36,255}+|github_pat_[0-9A-Za-z_]{22,255}+)",
        ),
    ),
)
GITLAB_TOKEN = Detector(
    InfoType.GITLAB_TOKEN,
    (token_form(rb"gl(?:pat|ptt|dt|rt|soat)-[" + _RUN + rb"]{20}",
                BEHIND_EDGE + rb"gl(?:pat|ptt|dt|rt|soat)-[" + _RUN + rb"]{20,}+"),),
)  # fmt: skip
SLACK_TOKEN = Detector(
    InfoType.SLACK_TOKEN,
    (
        token_form(rb"xox[abeoprs]-[0-9A-Za-z-]{10}", BEHIND_EDGE + rb"xox[abeoprs]-[0-9A-Za-z-]{10,}+"),
        token_form(rb"hooks\.slack\.com/services/T", rb"hooks\.slack\.com/services/(T[0-9A-Za-z/]{20,}+)"),
    ),
)
STRIPE_KEY = Detector(
    InfoType.STRIPE_KEY,
    (
        token_form(rb"[rsp]k_(?:live|test)_[0-9A-Za-z]{16}", BEHIND_EDGE + rb"[rsp]k_(?:live|test)_[0-9A-Za-z]{16,}+"),
        token_form(rb"whsec_[0-9A-Za-z]{24}", BEHIND_EDGE + rb"whsec_[0-9A-Za-z]{24,}+"),
    ),
)
GOOGLE_API_KEY = Detector(
    InfoType.GOOGLE_API_KEY,
    (
        token_form(rb"AIza[" + _RUN + rb"]{35}", _OUTSIDE + rb"AIza[" + _RUN + rb"]{35}(?![" + _RUN + rb"])"),
        token_form(rb"GOCSPX-[" + _RUN + rb"]{20}", _OUTSIDE + rb"GOCSPX-[" + _RUN + rb"]{20,}+"),
        token_form(rb"ya29\.[" + _RUN + rb"]{20}", _OUTSIDE + rb"ya29\.[" + _RUN + rb"]{20,}+"),
    ),
)
