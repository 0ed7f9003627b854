"""Identity providers: OpenID Connect and SAML."""
