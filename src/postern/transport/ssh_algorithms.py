"""Algorithms of SSH that are spoken, with clients as with targets.

None of them needs the strict key exchange to be safe (Terrapin, CVE-2023-48795, needs chacha20-poly1305 or CBC); that
is asked for all the same.
"""

CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
