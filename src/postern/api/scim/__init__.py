"""SCIM 2.0 (RFC 7643, RFC 7644): users and groups that a provisioning system manages."""
