"""Identities: accounts and their proof, logins and their tokens, keys and identities of programs, groups."""
