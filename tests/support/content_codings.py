"""Compression of bodies, by the names of content codings."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping

import brotli

from postern.protocols.http.content.content_codings import zstd


def _raw_deflate(content: bytes) -> bytes:
    raw = zlib.compressobj(wbits=-15)
    return raw.compress(content) + raw.flush()


def _two(compress: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Return a function that compresses content in two parts that begin anew."""
    return lambda content: compress(content[: len(content) // 2]) + compress(content[len(content) // 2 :])


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _brotli(content: bytes) -> bytes:
    return bytes(brotli.compress(content, quality=4))


def _zstd_in_frames(content: bytes) -> bytes:
    """Return two frames after one that decoders skip."""
    return b"\x50\x2a\x4d\x18\x04\0\0\0skip" + _two(zstd.compress)(content)


Coding = tuple[str, Callable[[bytes], bytes]]

CODINGS: Mapping[str, Coding] = {
    "gzip": ("gzip", _gzip),
    "x-gzip": ("x-gzip", _gzip),
    "gzip in members": ("gzip", _two(_gzip)),
    "deflate": ("deflate", zlib.compress),
    "deflate without header": ("deflate", _raw_deflate),
    "br": ("br", _brotli),
    "zstd": ("zstd", zstd.compress),
    "zstd in frames": ("zstd", _zstd_in_frames),
    "gzip, br": ("gzip, br", lambda content: _brotli(_gzip(content))),
    "zstd, gzip": ("zstd, gzip", lambda content: _gzip(zstd.compress(content))),
    "br, zstd, deflate": ("br, zstd, deflate", lambda content: zlib.compress(zstd.compress(_brotli(content)))),
    "identity": ("identity", lambda content: content),
}
"""By what they are: the value of `Content-Encoding`, and the function that compresses."""
