"""Endpoints of AWS, by service and region, and regions by endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from postern.errors import Invalid

_REGION: Final = re.compile(r"[a-z]{2}(?:-[a-z]+)+-\d{1,2}")
_SUFFIXES: Final = (
    *(("cn-", "amazonaws.com.cn"), ("us-iso-", "c2s.ic.gov"), ("us-isob-", "sc2s.sgov.gov")),
    *(("eu-isoe-", "cloud.adc-e.uk"), ("us-isof-", "csp.hci.ic.gov"), ("eusc-", "amazonaws.eu")),
)
_HOST: Final = re.compile(r"(?:[a-z0-9.-]+\.)?([a-z]{2}(?:-[a-z]+)+-\d{1,2})\.(?:vpce\.)?amazonaws\.(?:com|com\.cn|eu)")


def check_region(region: str) -> str:
    """Return the region. Raises Invalid for a text that is none: it becomes part of a host name."""
    if _REGION.fullmatch(region) is None:
        raise Invalid(f"AWS_REGION: {region[:64]!r} is not a region; write it as in eu-central-1", field="secret")
    return region


def endpoint_of(prefix: str, region: str) -> str:
    """Return the address of a service (`https://dynamodb.eu-central-1.amazonaws.com`). Raises Invalid."""
    check_region(region)
    suffix = next((suffix for start, suffix in _SUFFIXES if region.startswith(start)), "amazonaws.com")
    return f"https://{prefix}.{region}.{suffix}"


def region_in(endpoint: str) -> str:
    """Return the region that an address of AWS names; empty for other addresses."""
    match = _HOST.fullmatch((urlsplit(endpoint).hostname or "").rstrip("."))
    return match[1] if match else ""


def region_of(values: Mapping[str, str]) -> str:
    """Return the region of a connection: AWS_REGION, else that of AWS_ENDPOINT_URL. Raises Invalid."""
    region = (
        values.get("AWS_REGION") or values.get("AWS_DEFAULT_REGION") or region_in(values.get("AWS_ENDPOINT_URL", ""))
    )
    if not region:
        raise Invalid("AWS_REGION is missing; set it to the region of the target", field="secret")
    return check_region(region)


def check_endpoint(url: str) -> str:
    """Return an address that replaces AWS's own, without a path. Raises Invalid."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.strip("/") or parts.query:
        raise Invalid("AWS_ENDPOINT_URL must be http://HOST:PORT or https://HOST:PORT, without a path", field="secret")
    if parts.username or parts.password:
        raise Invalid("AWS_ENDPOINT_URL must not have a user name or a password", field="secret")
    return f"{parts.scheme}://{parts.netloc}"
