"""Real HTTP servers on free ports of loopback: Node for both versions, nginx."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.certificates import Issued

_NODE = r"""
const http = require('http'), http2 = require('http2'), crypto = require('crypto');
const {key, cert} = JSON.parse(process.argv[1]);
function handle(request, response) {
  const url = new URL(request.url, 'http://x');
  if (url.pathname === '/head') {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({method: request.method, url: request.url, version: request.httpVersion,
      headers: request.headers, session: request.stream ? request.stream.session.socket.remotePort
                                                        : request.socket.remotePort}));
  } else if (url.pathname === '/echo') {
    response.writeHead(200, {'x-length': request.headers['content-length'] || 'none'});
    request.pipe(response);
  } else if (url.pathname === '/hash') {
    const hash = crypto.createHash('sha256');
    let size = 0;
    request.on('data', (data) => { hash.update(data); size += data.length; });
    request.on('end', () => response.end(hash.digest('hex') + ' ' + size + ' ' + JSON.stringify(request.trailers)));
  } else if (url.pathname === '/big') {
    let left = Number(url.searchParams.get('n'));
    const piece = Buffer.alloc(65536, 'x');
    const write = () => {
      while (left > 0) {
        const size = Math.min(left, piece.length);
        left -= size;
        if (!response.write(size === piece.length ? piece : piece.subarray(0, size))) {
          response.once('drain', write);
          return;
        }
      }
      response.end();
    };
    write();
  } else if (url.pathname === '/trailers') {
    response.setHeader('trailer', 'x-sum');
    response.write('abc');
    response.addTrailers({'x-sum': '3'});
    response.end();
  } else if (url.pathname === '/early') {
    response.writeHead(413);
    response.end('too much');
  } else if (url.pathname === '/drop') {
    request.socket.destroy();
  } else if (url.pathname === '/break') {
    response.write('abc');
    setTimeout(() => (request.stream ? request.stream.close(2) : request.socket.destroy()), 20);
  } else if (url.pathname === '/goaway') {
    if (request.stream) request.stream.session.goaway(0);
    response.end('last');
  } else if (url.pathname === '/hints') {
    if (response.writeEarlyHints) response.writeEarlyHints({link: '</style.css>; rel=preload'});
    response.end('hinted');
  } else if (url.pathname === '/stall') {
    request.pause();
    setTimeout(() => { request.resume(); request.on('end', () => response.end('read')); }, 300);
  } else if (url.pathname === '/slow') {
    setTimeout(() => response.end('slow'), 200);
  } else {
    response.writeHead(204);
    response.end();
  }
}
const servers = {
  http1: http.createServer(handle),
  h2c: http2.createServer({settings: {maxConcurrentStreams: 3}}, handle),
  https: http2.createSecureServer({key, cert, allowHTTP1: true, settings: {maxConcurrentStreams: 3}}, handle),
};
for (const server of Object.values(servers)) {
  server.on('upgrade', (request, stream, head) => {
    stream.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n');
    stream.write(head);
    stream.pipe(stream);
  });
  server.on('sessionError', () => {});
  server.on('clientError', () => {});
}
const ports = {};
for (const [name, server] of Object.entries(servers)) {
  server.listen(0, '127.0.0.1', () => {
    ports[name] = server.address().port;
    if (Object.keys(ports).length === 3) console.log(JSON.stringify(ports));
  });
}
process.stdin.on('end', () => process.exit(0)).resume();
"""


@dataclass(frozen=True)
class NodePorts:
    """`https` speaks HTTP/2 and HTTP/1.1; `h2c` HTTP/2 without TLS. HTTP/2 has at most three streams at a time."""

    http1: int
    h2c: int
    https: int


@contextmanager
def node_server(issued: Issued) -> Iterator[NodePorts]:
    """A Node server. Its paths: /head, /echo, /hash, /big?n=, /trailers, /early, /drop, /break, /goaway, /hints,
    /stall, /slow."""
    program = shutil.which("node")
    if program is None:
        pytest.skip("node is not installed")
    keys = json.dumps({"key": issued.key.decode(), "cert": issued.certificate.decode()})
    with subprocess.Popen([program, "-e", _NODE, keys], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            yield NodePorts(**json.loads(process.stdout.readline()))
        finally:
            process.kill()


_NGINX = """
worker_processes 1;
daemon off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 64; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  client_max_body_size 1m;
  keepalive_timeout {keepalive};
  server {{
    listen 127.0.0.1:{http};
    listen 127.0.0.1:{https} ssl http2;
    ssl_certificate {folder}/certificate.pem;
    ssl_certificate_key {folder}/key.pem;
    root {folder}/files;
    location /old {{ return 301 /new; }}
    location /upload {{ proxy_pass http://127.0.0.1:{away}; }}
  }}
}}
"""


@dataclass(frozen=True)
class NginxPorts:
    """`https` speaks HTTP/2 and HTTP/1.1. `/big` has 32 MiB, `/upload` accepts 1 MiB and has no server behind it."""

    http: int
    https: int


@contextmanager
def nginx_server(issued: Issued, *, keepalive: str = "75s") -> Iterator[NginxPorts]:
    program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("nginx is not installed")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "files").mkdir()
        folder.chmod(0o755)
        (folder / "files" / "big").write_bytes(bytes(32 << 20))
        (folder / "files" / "index.html").write_text("<p>hello</p>")
        (folder / "certificate.pem").write_bytes(issued.certificate)
        (folder / "key.pem").write_bytes(issued.key)
        ports = [_free_port() for _ in range(3)]
        text = _NGINX.format(folder=name, http=ports[0], https=ports[1], away=ports[2], keepalive=keepalive)
        (folder / "nginx.conf").write_text(text)
        with subprocess.Popen(
            [program, "-p", name, "-c", str(folder / "nginx.conf")], stderr=subprocess.PIPE
        ) as process:
            try:
                _wait_for(ports[0], process)
                yield NginxPorts(ports[0], ports[1])
            finally:
                process.terminate()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if process.poll() is not None:
                assert process.stderr is not None
                pytest.fail(f"nginx did not start: {process.stderr.read()!r}")
            time.sleep(0.02)
        else:
            return
    pytest.fail("nginx did not start in ten seconds")
