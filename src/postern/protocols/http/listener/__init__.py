"""HTTP clients of the gateway: their connections, logins and sessions.

a connection ─▶ http_gate.py: TLS, the version ─▶ http1_serving.py, http2_serving.py: one request after another
a request ─▶ http_front.py ─▶ http_authentication.py: whose is it? ─▶ http_sessions.py: its session, a free link
          ─▶ http_relay.py: frames to the link, and back
"""
