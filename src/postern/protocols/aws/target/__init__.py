"""The agent's side: identities at AWS, and signing of each request with them."""
