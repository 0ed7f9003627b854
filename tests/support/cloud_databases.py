"""A cloud's database: it takes a login token instead of a password, over TLS, before a real PostgreSQL server.

What clouds document: the login asks for the password in clear text, and the token is checked for this user and host.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, quote, urlsplit

from tests.support.certificates import Issued
from tests.support.postgres import PostgresServer

_SSL_REQUEST, _CLEARTEXT = 80877103, b"R" + struct.pack(">II", 8, 3)
Verify = Callable[[str, str], bool]  # user, token


@dataclass
class CloudDatabase:
    """`tokens` are those that came, without their users."""

    server: PostgresServer
    verify: Verify
    issued: Issued
    port: int = 0
    tokens: list[str] = field(default_factory=list)

    @contextmanager
    def serve(self, folder: Path) -> Iterator[int]:
        (folder / "cert.pem").write_bytes(self.issued.certificate)
        (folder / "key.pem").write_bytes(self.issued.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = listener.getsockname()[1]
            thread = threading.Thread(target=self._accept, args=(listener, context))
            thread.start()
            yield self.port
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
        thread.join(30)

    def _accept(self, listener: socket.socket, context: ssl.SSLContext) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                with closing(client), suppress(OSError, EOFError):
                    self._serve(client, context)

    def _serve(self, client: socket.socket, context: ssl.SSLContext) -> None:
        client.settimeout(30)
        length, code = struct.unpack(">II", _read(client, 8))
        if (length, code) != (8, _SSL_REQUEST):
            client.sendall(_error("28000", "SSL connection is required"))
            return
        client.sendall(b"S")
        with context.wrap_socket(client, server_side=True) as stream:
            length = struct.unpack(">I", _read(stream, 4))[0]
            start = _read(stream, length - 4)
            words = start[4:].split(b"\0")
            user = dict(zip(words[::2], words[1::2], strict=False))[b"user"].decode()
            stream.sendall(_CLEARTEXT)
            kind, length = struct.unpack(">cI", _read(stream, 5))
            token = _read(stream, length - 4)[:-1].decode()
            self.tokens.append(token)
            if kind != b"p" or not self.verify(user, token):
                stream.sendall(_error("28P01", f'PAM authentication failed for user "{user}"'))
                return
            self._relay(stream, struct.pack(">I", len(start) + 4) + start)

    def _relay(self, stream: ssl.SSLSocket, start: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port), 30) as target:
            target.sendall(start)
            answer = threading.Thread(target=_copy, args=(target, stream))
            answer.start()
            _copy(stream, target)
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
            answer.join(30)


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError, ValueError):
        while data := source.recv(65536):
            sink.sendall(data)


def _read(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def _error(code: str, text: str) -> bytes:
    fields = b"SFATAL\0VFATAL\0C" + code.encode() + b"\0M" + text.encode() + b"\0\0"
    return b"E" + struct.pack(">I", len(fields) + 4) + fields


def rds_token_is_valid(token: str, *, host: str, port: int, user: str, region: str, key_id: str, secret: str) -> bool:
    """Whether this is what AWS documents for RDS: a URL signed by Signature Version 4, for 15 minutes at most."""
    url = urlsplit(f"https://{token}")
    query = dict(parse_qsl(url.query))
    signature = query.pop("X-Amz-Signature", "")
    began = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    scope = f"{began:%Y%m%d}/{region}/rds-db/aws4_request"
    expected = {
        "Action": "connect",
        "DBUser": user,
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{key_id}/{scope}",
        "X-Amz-Date": query["X-Amz-Date"],
        "X-Amz-Expires": "900",
        "X-Amz-SignedHeaders": "host",
    }
    is_current = abs(datetime.now(UTC) - began) < timedelta(minutes=15)
    if query != expected or url.netloc != f"{host}:{port}" or url.path != "/" or not is_current:
        return False
    words = "&".join(f"{quote(name, safe='-_.~')}={quote(query[name], safe='-_.~')}" for name in sorted(query))
    request = f"GET\n/\n{words}\nhost:{host}:{port}\n\nhost\n{hashlib.sha256(b'').hexdigest()}"
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{query['X-Amz-Date']}\n{scope}\n{digest}"
    key = f"AWS4{secret}".encode()
    for part in (f"{began:%Y%m%d}", region, "rds-db", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.compare_digest(hmac.new(key, text.encode(), "sha256").hexdigest(), signature)
