"""HTTP/1.1 (RFC 9112) without I/O: one strict reader for each role, and a writer that writes heads anew."""
