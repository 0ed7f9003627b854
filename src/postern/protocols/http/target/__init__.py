"""The agent's side of HTTP: it receives requests as frames, adds the credential, and sends them to the application.

relay ─ frames ─▶ HttpTargetLink ─▶ Http1Upstream or Http2Upstream ─▶ application
                     │  a link carries one exchange after another
                     └─ HttpAccess (the secrets), RequestSigner (the credential), HttpBasePath
"""
