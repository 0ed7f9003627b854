"""Values that are written with escapes: rules find them, and what they write instead stays in its place."""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Callable
from urllib.parse import parse_qs, quote, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.http_links import CARD, EMAIL, get, guards, http_link, masking

from postern.domain.rules.guardrail import Action, Rule, RuleType
from postern.domain.rules.masking import Strategy, Strictness
from postern.protocols.httpproxy.encoded_texts import EncodedTexts, decode_escapes, encoded_texts
from postern.protocols.httpproxy.lineage.httpproxy_lineage import HttpproxyLineage

SPELLINGS: dict[str, Callable[[str], str]] = {
    "decimal": lambda text: "".join(f"&#{ord(sign)};" for sign in text),
    "decimal without an end": lambda text: "".join(f"&#{ord(sign)}" for sign in text[:-1]) + f"&#{ord(text[-1])};",
    "decimal with zeros": lambda text: "".join(f"&#{ord(sign):012};" for sign in text),
    "hexadecimal": lambda text: "".join(f"&#x{ord(sign):X};" for sign in text),
    "at and dot by name": lambda text: text.replace("@", "&commat;").replace(".", "&period;"),
    "only the at": lambda text: text.replace("@", "&#64;"),
    "referenced twice": lambda text: text.replace("@", "&amp;#64;"),
    "hidden characters": lambda text: text.replace("@", "&shy;@&#8203;"),
    "percent": lambda text: "".join(f"%{ord(sign):02x}" for sign in text),
    "percent of signs": lambda text: quote(text, safe=""),
    "percent twice": lambda text: quote(quote(text, safe=""), safe=""),
    "percent as in JScript": lambda text: text.replace("@", "%u0040"),
    "script": lambda text: "".join(f"\\u{ord(sign):04x}" for sign in text),
    "script, short": lambda text: "".join(f"\\x{ord(sign):02x}" for sign in text),
    "script, braces": lambda text: "".join(f"\\u{{{ord(sign):x}}}" for sign in text),
    "script in a string": lambda text: text.replace("@", "\\\\u0040"),
    "reference in a script": lambda text: text.replace("@", "\\u0026#64;"),
}
PLACES = [
    ("text/html", "<p>Mail: {}</p>"),
    ("text/html; charset=iso-8859-1", "<p>caf\xe9 {} caf\xe9</p>"),
    ("text/html; charset=utf-16", "<p>{}</p>"),
    ("text/html", "<a title='{}' href=\"mailto:{}?subject=x\">mail</a>"),
    ("text/html", "<p>{}" + " and more" * 2000 + "{}</p>"),
    ("text/html", "<script>const a = \"{}\", b = `{}`, c = '{}';</script>"),
    ("application/xml", "<user mail='{}'><name>{}</name><![CDATA[ {} ]]></user>"),
    ("image/svg+xml", "<svg><text>{}</text></svg>"),
    ("text/plain", "GET /users?mail={}&x=1"),
    ("text/javascript", "const mail = '{}';"),
    ("text/event-stream", "data: {}\n\n"),
    ("", "see {}"),
]


def masked(content_type: str, text: str, **options: object) -> str:
    charset = content_type.partition("charset=")[2] or "utf-8"
    shown = get(http_link(masking()), text.encode(charset), content_type, **options)  # type: ignore[arg-type]
    assert (shown.status, shown.ends) == (200, 1)
    return shown.body.decode("latin-1" if charset == "iso-8859-1" else "utf-8")


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(("content_type", "place"), PLACES)
def test_value_is_masked_however_it_is_spelled(content_type: str, place: str, spelling: str) -> None:
    text = place.replace("{}", SPELLINGS[spelling](EMAIL))
    for sized, size, piece in ((True, 0, 1 << 14), (False, 0, 37), (False, 1, 5000)):
        body = masked(content_type, text, sized=sized, size=0 if len(text) > 5000 else size, piece=piece)
        plain = decode_escapes(body.encode()).decode("utf-8", "replace")
        assert EMAIL not in plain
        assert "lice.miller" not in plain
        assert "*" in plain


JSON_PLACES = ['{{"a": "{}"}}', '[{{"html": "<p title=\\"{}\\">{}</p>"}}, 7]', '{{"next": "/users?mail={}&page=2"}}']


@pytest.mark.parametrize("spelling", [name for name in SPELLINGS if "script" not in name])
@pytest.mark.parametrize("place", JSON_PLACES)
def test_value_in_json_is_masked_and_the_document_stays_valid(place: str, spelling: str) -> None:
    text = place.format(*[SPELLINGS[spelling](EMAIL)] * 2)
    for content_type in ("application/json", "application/x-ndjson", "text/event-stream"):
        is_stream = content_type == "text/event-stream"
        body = masked(content_type, f"data: {text}\n\n" if is_stream else text, sized=False)
        plain = decode_escapes(body.encode()).decode()
        assert "lice.miller" not in plain
        assert json.loads(body.removeprefix("data: ")) != json.loads(text)


@pytest.mark.parametrize("strategy", [Strategy.REPLACE, Strategy.NULL])
@pytest.mark.parametrize("spelling", [name for name in SPELLINGS if "script" not in name])
def test_value_in_json_is_masked_beside_rules_about_columns(spelling: str, strategy: Strategy) -> None:
    text = json.dumps({"id": 1, "next": f"/a?b=%26&mail={SPELLINGS[spelling](EMAIL)}&page=2"})
    rule = masking("EMAIL_ADDRESS", columns=("id",), strategy=strategy, origins=HttpproxyLineage())
    shown = get(http_link(rule), text.encode(), "application/json")
    assert b"lice.miller" not in decode_escapes(shown.body)
    if strategy is Strategy.REPLACE:
        assert json.loads(shown.body)["next"].startswith("/a?")
        assert json.loads(shown.body)["next"].endswith("&page=2")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("<a href='/x?a=1&amp;b=2&amp;m=alice.miller%40example.com&amp;c=%26'>", "&amp;c=%26'>"),
        ("<p>&lt;b&gt; &eacute;&nbsp;alice.miller&#64;example.com &amp; more</p>", " &amp; more</p>"),
        ("<p>&lt;b&gt; &eacute;&nbsp;alice.miller&#64;example.com &amp; more</p>", "<p>&lt;b&gt; &eacute;&nbsp;"),
        ("<p>R&D, 100% &foo; \\d+ &copy 2024</p>", "<p>R&D, 100% &foo; \\d+ &copy 2024</p>"),
    ],
)
def test_everything_else_keeps_its_spelling(before: str, after: str) -> None:
    assert after in masked("text/html", before)


def test_numbers_separated_by_references_are_masked() -> None:
    spaced = "&nbsp;".join(CARD[at : at + 4] for at in range(0, 16, 4))
    assert "4111&nbsp;1111" not in masked("text/html", f"<p>{spaced}</p>")


def test_headers_with_escapes_are_masked() -> None:
    headers = {"location": "/users?mail=alice.miller%40example.com&x=1", "link": "</a?b=%41>; rel=next", "x-y": "z"}
    shown = get(http_link(masking()), b"", "", headers=headers, status=302)
    location = str(shown.header("location"))
    assert "lice.miller" not in unquote(location)
    assert location.endswith("&x=1")
    assert (shown.header("link"), shown.header("x-y")) == (headers["link"], "z")


@pytest.mark.parametrize(
    ("content_type", "text"),
    [
        ("text/html", "<p>top&#32;secret</p>"),
        ("text/html", "<p>top&nbsp;secret</p>"),
        ("application/json", '{"a": "top%20secret"}'),
        ("text/javascript", "a = 'top\\x20secret'"),
    ],
)
@pytest.mark.parametrize("action", [Action.DENY, Action.MASK])
def test_guardrails_find_words_with_escapes(content_type: str, text: str, action: Action) -> None:
    rule = Rule(RuleType.DENY_WORDS_LIST, words=("top secret",), action=action)
    shown = get(http_link(guards(output=(rule,))), text.encode(), content_type)
    assert (shown.status == 403) is (action is Action.DENY)
    assert b"secret" not in decode_escapes(shown.body) or action is Action.DENY


HOSTILE = st.text(alphabet="a@.<>&\"'`\\%;{}= \u00e9\u20ac\U0001f600#x64ju\n", max_size=30)


@given(HOSTILE, HOSTILE, HOSTILE)
def test_replaced_reference_is_read_as_it_was_meant(before: str, value: str, after: str) -> None:
    """Text of a page that was escaped is text again, and never markup."""
    runs = encoded_texts((html.escape(before) + "&#64;VALUE&#64;" + html.escape(after)).encode())
    assert runs is not None
    written = runs.replace([text.replace(b"@VALUE@", value.encode()) for text in runs.texts]).decode()
    if "&amp;" not in html.escape(before + after):  # else there are two readings
        assert "<" not in written
        assert html.unescape(written) == before + value + after or value in ("", "@VALUE@")


@given(HOSTILE)
def test_replaced_value_of_a_query_stays_one_value(value: str) -> None:
    runs = EncodedTexts(b"/x?a=1&mail=%40VALUE%40&b=2#f")
    written = runs.replace([text.replace(b"@VALUE@", value.encode()) for text in runs.texts]).decode()
    query = parse_qs(written.partition("?")[2].partition("#")[0], keep_blank_values=True)
    assert query == {"a": ["1"], "mail": [value], "b": ["2"]}


@given(HOSTILE)
def test_replaced_value_of_a_script_stays_in_its_string(value: str) -> None:
    runs = EncodedTexts(b'"\\u0040VALUE\\u0040"')
    written = runs.replace([text.replace(b"@VALUE@", value.encode()) for text in runs.texts]).decode()
    assert json.loads(written) == value


@given(st.binary(max_size=200))
def test_unchanged_text_is_the_same_bytes(data: bytes) -> None:
    for text in (data, b"&#64;" + data, data + b"%41"):
        runs = EncodedTexts(text)
        assert runs.replace(list(runs.texts)) == text


ENTITIES = f"""<?xml version="1.0"?>
<!DOCTYPE a [
<!ENTITY at
"@">]><a>alice.miller&at;example.com {EMAIL}</a>"""


@pytest.mark.parametrize("strictness", list(Strictness))
@pytest.mark.parametrize("piece", [1, 1 << 14])
def test_document_that_declares_entities_follows_the_strictness(strictness: Strictness, piece: int) -> None:
    for sized in (True, False):
        link = http_link(masking(strictness=strictness))
        shown = get(link, ENTITIES.encode(), "application/xml", sized=sized, piece=piece)
        is_shown = b"lice.miller&at;" in shown.body
        assert is_shown is (strictness is Strictness.BEST_EFFORT)
        assert EMAIL.encode() not in shown.body


def test_names_for_web_addresses_are_no_doubt() -> None:
    names = """<!ENTITY ns "http://www.w3.org/2000/svg">\n<!ENTITY x 'https://a.b/~c#d'>"""
    text = f'<!DOCTYPE svg [{names}]><svg xmlns="&ns;"/>'
    assert masked("image/svg+xml", text) == text


def in_base64(text: str) -> str:
    return "data:text/html;charset=utf-8;base64," + base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("content_type", "place"),
    [
        ("text/html", "<img src='{}'>"),
        ("text/html", "<a href={}>x</a> &amp; {}&amp;"),
        ("text/css", "a {{ background: url({}) }} \\u0041"),
        ("application/json", '{{"a": "{}"}}'),
    ],
)
def test_texts_in_urls_are_masked(content_type: str, place: str) -> None:
    texts = [f"<p>{EMAIL}</p>", "<p>alice.miller&#64;example.com</p>", f"x{EMAIL}", f"xx {EMAIL} ***"]
    for text in texts:
        body = masked(content_type, place.format(in_base64(text), in_base64(text)))
        found = re.findall(r"base64,([\w+/=]+)", body)
        assert found
        for each in found:
            assert "lice.miller" not in base64.b64decode(each).decode()
            assert "*" in base64.b64decode(each).decode()


def test_urls_without_a_text_or_a_value_stay() -> None:
    picture = base64.b64encode(b"\x89PNG\r\n\x1a\n" + EMAIL.encode() + bytes(9)).decode()
    text = f"<img src='data:image/png;base64,{picture}'> <img src='{in_base64('harmless')}'> &amp; base64,"
    assert masked("text/html", text) == text


def test_base64_in_a_request_is_read_in_urls_only() -> None:
    assert b"drop table" in decode_escapes(in_base64("drop&#32;table").encode())
    assert b"drop table" not in decode_escapes(base64.b64encode(b"drop table"))
