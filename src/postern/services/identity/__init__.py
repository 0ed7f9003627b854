"""Who is who: accounts and how they are proved, logins and their tokens, keys and identities of programs, groups."""
