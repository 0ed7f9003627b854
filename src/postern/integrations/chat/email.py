"""E-mail: text and HTML, one thread per review, over TLS whenever it leaves this machine."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from contextlib import suppress
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from urllib.parse import urlsplit
from uuid import UUID, uuid4

import aiosmtplib
from markupsafe import Markup

from postern.domain.chat import Card
from postern.domain.sink import Sink
from postern.errors import Denied, Unavailable
from postern.integrations.sinks.receivers import DEADLINE, Receivers, trust
from postern.store.ports.common_ports import Clock

log = logging.getLogger(__name__)

MAX_SUBJECT = 200
MAX_INPUT = 10_000
_HTML = Markup(
    '<!doctype html><html><body><h2>{title}</h2><p><strong>{state}</strong></p><p><a href="{url}">{words}</a></p>'
    "<dl>{facts}</dl>{input}</body></html>"
)


class EmailNotifier:
    """The notifier. `host` is this machine's name."""

    def __init__(self, receivers: Receivers, host: str, now: Clock) -> None:
        self._receivers = receivers
        self._host = host
        self._now = now

    async def notify(self, sink: Sink, card: Card, previous: tuple[str, str] | None, event_id: UUID) -> tuple[str, str]:
        """Return ("", the Message-ID of the thread's first mail). A retry has the same Message-ID, so readers see one
        mail."""
        first = previous[1] if previous is not None else _id(sink, event_id)
        email_message = message(sink, card, self._now())
        email_message["Message-ID"] = _id(sink, event_id)
        if previous is not None:
            email_message["In-Reply-To"] = email_message["References"] = first
        await self._send(sink, email_message)
        return "", first

    async def say(self, sink: Sink, text: str) -> None:
        email_message = _new_message(sink, text, self._now())
        email_message["Message-ID"] = _id(sink, uuid4())
        email_message.set_content(text + "\n")
        await self._send(sink, email_message)

    async def _send(self, sink: Sink, mail: EmailMessage) -> None:
        """Send to all recipients or none. Raises Denied, Unavailable."""
        parts = urlsplit(sink.address)
        host, port = parts.hostname or "", parts.port or 0
        is_plain = parts.scheme == "smtp"
        address = await self._receivers.address_of(host, port, private=is_plain)
        try:
            async with asyncio.timeout(DEADLINE):
                await self._hand_over(sink, mail, (host, address, port), parts.scheme)
        except TimeoutError:
            raise Unavailable(f"{host} did not accept the mail within {DEADLINE:g} seconds") from None
        except aiosmtplib.SMTPAuthenticationError as error:
            raise Unavailable(f"{host} rejected the user name or password: {error.code}") from None
        except (aiosmtplib.SMTPRecipientsRefused, aiosmtplib.SMTPSenderRefused) as error:
            raise Denied(f"{host} rejected the sender or a recipient: {error}") from None
        except aiosmtplib.SMTPResponseException as error:
            kind = Denied if 500 <= error.code < 600 else Unavailable
            raise kind(f"{host} answered {error.code} {error.message}") from None
        except (OSError, ssl.SSLError, aiosmtplib.SMTPException) as error:
            raise Unavailable(f"{host} cannot be reached: {error}") from None

    async def _hand_over(self, sink: Sink, mail: EmailMessage, where: tuple[str, str, int], scheme: str) -> None:
        host, address, port = where
        # Connect to the checked address; the certificate must be for the name.
        connected = await _connect(address, port)
        client = aiosmtplib.SMTP(
            hostname=host,
            sock=connected,
            local_hostname=self._host,
            timeout=DEADLINE,
            use_tls=scheme == "smtps",
            start_tls=scheme == "smtp+starttls",  # without TLS no mail is sent
            tls_context=None if scheme == "smtp" else trust(sink.authority),
        )
        try:
            await client.connect()
            if "username" in sink.keys:
                await client.login(sink.keys["username"].reveal(), sink.keys["password"].reveal())
            sender, to = (
                mail["From"],
                [recipient.strip() for recipient in sink.options["to"].split(",") if recipient.strip()],
            )
            refused, _ = await client.send_message(mail, sender=str(sender), recipients=to)
            if refused:  # a retry would send it twice to the others
                log.warning("%s rejected the recipients %s; the mail was sent to the others", host, ", ".join(refused))
            with suppress(aiosmtplib.SMTPException):
                await client.quit()
        finally:
            client.close()
            connected.close()


async def _connect(address: str, port: int) -> socket.socket:
    new_socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    new_socket.setblocking(False)
    try:
        await asyncio.get_running_loop().sock_connect(new_socket, (address, port))
    except BaseException:
        new_socket.close()
        raise
    return new_socket


def message(sink: Sink, card: Card, now: datetime) -> EmailMessage:
    """Build the message. User texts lose line ends and control characters, so that they cannot add headers."""
    email_message = _new_message(sink, f"{card.title}: {card.state}", now)
    words = "Decide here" if card.is_open else "More here"
    facts = [f"{label}: {value}" for label, value in card.facts]
    text = card.input or ""
    cut = text[:MAX_INPUT] + ("\n… (more on the page)" if len(text) > MAX_INPUT else "")
    lines = [card.title, card.state, "", f"{words}: {card.url}", "", *facts, *(["", cut] if cut else [])]
    email_message.set_content("\n".join(lines) + "\n")
    rows = Markup("").join(Markup("<dt>{}</dt><dd>{}</dd>").format(label, value) for label, value in card.facts)
    code = Markup("<pre>{}</pre>").format(cut) if cut else Markup("")
    html = _HTML.format(title=card.title, state=card.state, url=card.url, words=words, facts=rows, input=code)
    email_message.add_alternative(str(html), subtype="html")
    return email_message


def _new_message(sink: Sink, subject: str, now: datetime) -> EmailMessage:
    message = EmailMessage()
    message["From"] = sink.options["from"]
    message["To"] = ", ".join(address.strip() for address in sink.options["to"].split(",") if address.strip())
    message["Subject"] = " ".join(subject.split())[:MAX_SUBJECT]
    message["Date"] = format_datetime(now)
    message["Auto-Submitted"] = "auto-generated"
    return message


def _id(sink: Sink, event_id: UUID) -> str:
    return f"<{event_id}.{sink.id}@{sink.options['from'].rpartition('@')[2]}>"
