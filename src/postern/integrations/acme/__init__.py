"""Server certificates from an ACME server (RFC 8555), such as Let's Encrypt or a company's own CA."""
