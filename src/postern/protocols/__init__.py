"""Sans-IO codecs, one folder per protocol: bytes in, events and bytes out.

A protocol imports `interception`, `domain` and this package's shared framing; never another
protocol, never a socket, a clock or the store. What it does not understand passes byte for byte.
"""
