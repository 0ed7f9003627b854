"""Codecs without I/O, one folder per protocol: bytes in, events and bytes out.

A protocol imports `interception`, `domain` and the shared modules of this package. It never imports another protocol, a
socket, a clock or the store. What it does not understand passes byte for byte.
"""
