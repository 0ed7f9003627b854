"""Where checkpoints are anchored, by the settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from postern.errors import Misconfigured
from postern.integrations.anchors.anchor_webhook import WebhookAnchor
from postern.integrations.anchors.file import FileAnchor
from postern.settings import Settings
from postern.store.ports.ledger_ports import Anchor


def anchors(settings: Settings) -> tuple[Anchor, ...]:
    """Raises Misconfigured."""
    found: list[Anchor] = []
    if settings.anchor_file:
        path = Path(settings.anchor_file).expanduser()
        if not path.parent.is_dir():
            raise Misconfigured(f"POSTERN_ANCHOR_FILE: there is no folder {path.parent}", field="anchor_file")
        found.append(FileAnchor(path))
    if settings.anchor_webhook:
        found.append(WebhookAnchor(settings.anchor_webhook, settings.anchor_webhook_secret, _now))
    if settings.anchor_bucket:
        found.append(_bucket(settings))
    return tuple(found)


def _bucket(settings: Settings) -> Anchor:
    try:
        from postern.integrations.anchors.bucket import BucketAnchor
    except ImportError:
        raise Misconfigured("a bucket of anchors needs boto3; run: pip install boto3") from None
    return BucketAnchor(settings.anchor_bucket, timedelta(days=settings.anchor_retention), _now)


def _now() -> datetime:
    return datetime.now(UTC)
