"""Values that only look like one: numbers, hashes and codes that every database is full of."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from bench.labelled.maker import CAPITALS, WORD, Maker

_HEX = "0123456789abcdef"


def _isbn(m: Maker) -> str:
    body = f"978-0-{m.digits(3)}-{m.digits(5)}"
    digits = [int(one) for one in body if one.isdigit()]
    return f"{body}-{-sum(d * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10}"


def _tracking(m: Maker) -> str:
    return m.one_of(f"1Z{m.pick(CAPITALS, 3)}{m.digits(13)}", m.digits(12), f"9400{m.digits(18)}", f"JD{m.digits(16)}")


def _version(m: Maker) -> str:
    a, b, c = (str(m.random.randint(0, 30)) for _ in range(3))
    return m.one_of(f"{a}.{b}.{c}", f"v{a}.{b}.{c}-rc.1", f"{a}.{b}.{c}.{a}.{b}", f"{a}.{b}.{c}+build.{m.digits(5)}")


def _price(m: Maker) -> str:
    amount = m.random.randint(1, 10**7) / 100
    return m.one_of(f"{amount:.2f}", f"${amount:,.2f}", f"{amount:.2f} EUR", f"{amount:,.2f}")


def _coordinates(m: Maker) -> str:
    return f"{m.random.uniform(-90, 90):.6f}, {m.random.uniform(-180, 180):.6f}"


def _log_line(m: Maker) -> str:
    return f"INFO worker-{m.digits(2)} handled job {m.digits(9)} in {m.digits(3)} ms, {m.digits(6)} bytes"


def _words(m: Maker) -> str:
    return str(m.fakers[0].sentence(nb_words=8))


# What it is, the names of its column, and how it is made.
NEGATIVES: dict[str, tuple[tuple[str, ...], Callable[[Maker], str]]] = {
    "order number": (("order_id", "order_no"), lambda m: m.one_of(m.digits(8), m.digits(10), f"ORD-{m.digits(8)}")),
    "invoice": (("invoice", "reference"), lambda m: f"INV-{m.random.randint(2015, 2026)}-{m.digits(6)}"),
    "serial key": (("id", "row_id"), lambda m: str(m.random.randint(1, 10**9))),
    "big serial key": (("id", "event_id"), lambda m: str(m.random.randint(10**10, 10**18))),
    "md5": (("checksum", "etag"), lambda m: m.pick(_HEX, 32)),
    "sha-256": (("digest", "sha256"), lambda m: m.pick(_HEX, 64)),
    "git commit": (("commit", "revision"), lambda m: m.pick(_HEX, m.random.choice([7, 12, 40]))),
    "UUID": (("id", "request_id"), lambda m: str(uuid.UUID(int=m.random.getrandbits(128), version=4))),
    "seconds of an epoch": (("created", "ts"), lambda m: str(m.random.randint(10**9, 2 * 10**9))),
    "milliseconds of an epoch": (("updated", "ts"), lambda m: str(m.random.randint(10**12, 2 * 10**12))),
    "version": (("version", "release"), _version),
    "tracking number": (("tracking_number", "parcel"), _tracking),
    "price": (("price", "total"), _price),
    "coordinates": (("location", "latlng"), _coordinates),
    "ISBN": (("isbn", "product"), _isbn),
    "EAN": (("ean", "barcode"), lambda m: str(m.fakers[0].ean13())),
    "SKU": (("sku", "article"), lambda m: f"{m.pick(CAPITALS, 3)}-{m.digits(4)}-{m.pick(CAPITALS, 2)}"),
    "licence key": (("key", "value"), lambda m: "-".join(m.pick(CAPITALS + "0123456789", 5) for _ in range(4))),
    "base64": (("payload", "data"), lambda m: m.pick(WORD + "+/", 44)),
    "file size": (("size", "bytes"), lambda m: m.digits(m.random.randint(4, 12))),
    "colour": (("color", "value"), lambda m: "#" + m.pick(_HEX, 6)),
    "postal code": (("zip", "postcode"), lambda m: m.one_of(m.digits(5), f"{m.digits(5)}-{m.digits(4)}")),
    "ticket": (("ticket", "issue"), lambda m: f"{m.pick(CAPITALS, 3)}-{m.digits(5)}"),
    "log line": (("message", "log"), _log_line),
    "sentence": (("comment", "text"), _words),
    "two numbers": (("range", "size"), lambda m: f"{m.digits(4)}-{m.digits(4)}"),
    "constant": (("status", "kind"), lambda m: m.one_of("DATABASE", "PENDING_APPROVAL", "CANCELLED", "STANDARD")),
    "path": (("path", "file"), lambda m: f"/var/lib/data/{m.digits(8)}/{m.pick(_HEX, 8)}.parquet"),
    "code name": (("scope", "symbol"), lambda m: m.one_of("std::vector", "a::b", "Foo::Bar", "user@localhost")),
    "part number": (("part_no", "model"), lambda m: f"{m.pick(CAPITALS, 2)}{m.digits(7)}"),
}
