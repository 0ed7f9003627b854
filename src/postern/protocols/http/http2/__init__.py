"""HTTP/2 (RFC 9113) without I/O: h2 keeps the states of streams, and these modules add limits and strict heads.

bytes ─▶ http2_guard (limits, frame by frame) ─▶ h2 ─▶ http2_heads (heads) ─▶ events with the number of a stream
"""
