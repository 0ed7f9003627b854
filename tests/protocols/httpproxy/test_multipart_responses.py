"""Responses of several parts: texts are masked, what is no text follows the rule, and all else stays."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.content_codings import CODINGS
from tests.support.http_links import CARD, EMAIL, get, http_link, masking

from postern.domain.rules.masking import Strictness
from postern.protocols.httpproxy.lineage.httpproxy_lineage import HttpproxyLineage
from postern.protocols.httpproxy.multipart_responses import PartSplitter

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
PDF = b"%PDF-1.7\n" + bytes(range(256)) * 4
FORM = "multipart/form-data; boundary=b0"


def part(head: str, content: bytes, boundary: str = "b0") -> bytes:
    return f"--{boundary}\r\n{head}\r\n\r\n".encode() + content + b"\r\n"


def field(name: str, value: bytes, more: str = "") -> bytes:
    return part(f'Content-Disposition: form-data; name="{name}"{more}', value)


DOCUMENT = json.dumps({"email": EMAIL, "id": 7}).encode()
END = b"--b0--\r\n"
MIXED = b"".join(
    (
        b"see " + EMAIL.encode() + b"\r\n",
        field("mail", EMAIL.encode()),
        field("user", DOCUMENT, "\r\nContent-Type: application/json\r\nContent-Length: 30"),
        field("photo", PNG, f'; filename="{EMAIL}.png"\r\nContent-Type: image/png'),
        field("lines", b'{"a": 1}\n' + DOCUMENT + b"\n", "\r\nContent-Type: application/x-ndjson"),
        field("form", b"mail=alice.miller%40example.com&x=1", "\r\nContent-Type: application/x-www-form-urlencoded"),
        field("empty", b""),
        END,
        b"bye " + EMAIL.encode(),
    )
)


@pytest.mark.parametrize("size", [1, 7, 0])
@pytest.mark.parametrize("piece", [1, 13, 1 << 14])
@pytest.mark.parametrize("coding", ["identity", "br", "gzip, br"])
def test_texts_are_masked_and_media_stays(coding: str, piece: int, size: int) -> None:
    name, compress = CODINGS[coding]
    headers = {"content-encoding": name, "etag": '"1"'}
    shown = get(http_link(masking()), compress(MIXED), FORM, size=size, piece=piece, headers=headers)
    assert (shown.status, shown.ends, shown.failure) == (200, 1, None)
    assert EMAIL.encode() not in shown.body
    assert b"lice.miller" not in shown.body
    assert PNG + b"\r\n--b0\r\n" in shown.body
    assert shown.body.count(b"--b0") == MIXED.count(b"--b0")
    assert b"Content-Length" not in shown.body
    assert shown.header("etag") is None
    user = shown.body.partition(b"application/json\r\n\r\n")[2].partition(b"\r\n--b0")[0]
    assert json.loads(user)["id"] == 7


@pytest.mark.parametrize("strictness", list(Strictness))
@pytest.mark.parametrize(
    ("content", "head", "name"),
    [
        (PDF, "Content-Type: application/pdf", "a PDF document"),
        (PDF, "Content-Type: image/png", "content of the type image/png"),
        (PDF, "X-Y: z", "content without a type"),
        (b"YWxpY2U=", "Content-Transfer-Encoding: base64", "a part encoded as 'base64'"),
        (PDF, "Content-Type: multipart/mixed; boundary=c", "content of the type multipart/mixed"),
    ],
)
def test_part_that_cannot_be_read_follows_the_strictness(
    content: bytes, head: str, name: str, strictness: Strictness
) -> None:
    body = part(head, content) + END
    shown = get(http_link(masking(strictness=strictness)), body, FORM)
    if strictness is Strictness.BEST_EFFORT:
        assert (shown.status, shown.body) == (200, body)
    else:
        assert shown.failure is not None or shown.status == 403
        assert name in (shown.failure.message if shown.failure else json.loads(shown.body)["message"])


SPELLINGS = [
    f"text {EMAIL}\r\n".encode() + END,
    f"--b0\r\n\r\n{EMAIL}\r\n".encode() + END,
    f"--b0\n\n{EMAIL}\n--b0--".encode(),
    f"--b0 {EMAIL}\r\nX: y\r\n\r\n\r\n".encode() + END,
    f"--b0\r\nX: {EMAIL}".encode(),
    f"--b0\r\nX: y\r\n--b0\r\n\r\n{EMAIL}".encode(),
    f"--b0--{EMAIL}".encode(),
    f"--b0--\r\n--b0\r\n\r\n{EMAIL}".encode(),
    field("png", PNG, "\r\nContent-Type: image/png")[:-2] + f"--b0\r\n\r\n{EMAIL}".encode(),
    field("png", PNG, "\r\nContent-Type: image/png") + f"--b0x\r\n\r\n{EMAIL}".encode(),
    part("Content-Type: text/plain; charset=utf-16", EMAIL.encode("utf-16")) + END,
    part("Content-Type: text/plain;\r\n charset=utf-16", EMAIL.encode("utf-16")) + END,
    part("Content-Type: text/plain\r\nContent-Type: image/png", EMAIL.encode()) + END,
    b"--b0\r\nX: " + b"y" * 100_000 + EMAIL.encode(),
]


@pytest.mark.parametrize("content_type", [FORM, 'multipart/mixed; boundary="b0"', "multipart/mixed; charset=x"])
@pytest.mark.parametrize("body", SPELLINGS)
def test_no_way_of_writing_parts_shows_a_value(body: bytes, content_type: str) -> None:
    for size in (1, 5, 0):
        shown = get(http_link(masking()), body, content_type, size=size, piece=9 if size else 1 << 14)
        assert EMAIL.encode() not in shown.body
        assert EMAIL.encode("utf-16-le") not in shown.body


def test_stream_of_pictures_is_not_held_back() -> None:
    body = part("Content-Type: image/jpeg", b"\xff\xd8\xff" + bytes(600)) * 2
    shown = get(http_link(masking()), body, "multipart/x-mixed-replace; boundary=b0", sized=False, ends=False)
    assert len(shown.body) > len(body) - 20


def test_fields_of_parts_are_columns_of_json_only() -> None:
    body = field("user", DOCUMENT, "\r\nContent-Type: application/json") + END
    rule = masking(columns=("id",), origins=HttpproxyLineage())
    shown = get(http_link(rule), body, FORM)
    assert b'"id": 7' not in shown.body
    assert EMAIL.encode() in shown.body
    rule = masking(columns=("id",), origins=HttpproxyLineage())
    shown = get(http_link(rule), field("id", b"7654321") + END, FORM)
    assert shown.status == 403 or shown.failure is not None
    assert b"7654321" not in shown.body


def test_card_in_one_part_is_masked() -> None:
    assert CARD.encode() not in get(http_link(masking()), field("card", CARD.encode()) + END, FORM).body


@given(
    st.lists(st.sampled_from([b"--b0", b"--", b"-", b"\r\n", b"\r", b"\n", b"b0", b"text", b":"])), st.integers(1, 9)
)
def test_pieces_are_the_whole(pieces: list[bytes], size: int) -> None:
    body = b"".join(pieces)
    whole, cut = PartSplitter(b"b0"), PartSplitter(b"b0")
    parts = [found for at in range(0, len(body), size) for found in cut.feed(body[at : at + size])] + cut.rest()
    assert b"".join([data for _, data in parts]) == body
    heads = [data for is_head, data in whole.feed(body) + whole.rest() if is_head]
    assert [data for is_head, data in parts if is_head] == heads
