"""Algorithms of SSH that are spoken, with clients as with targets.

None of them needs the strict key exchange to be safe (Terrapin, CVE-2023-48795, needs chacha20-poly1305 or CBC); that
is asked for all the same. No SHA-1, and no RSA in the key exchange, where the server makes a key for whoever asks.
"""

COSTLY_KEX = ("diffie-hellman-group18-sha512", "diffie-hellman-group-exchange-sha256")  # 12 ms where others take one
HYBRID_KEX = ("mlkem768x25519-sha256", "sntrup761x25519-sha512", "sntrup761x25519-sha512@openssh.com")
KEX = (
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp521",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group18-sha512",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group14-sha256",
)

CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
