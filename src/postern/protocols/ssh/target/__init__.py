"""Servers as targets: their SSH, of which each channel becomes a stream of `protocols.terminal` frames.

`access` is what the secrets say, `host_keys` which server is believed, `login` one connection to it, `logins` who
shares it, `channel` the stream, `wire` the bytes below.
"""
