"""What speaks to other people's services: identity providers and key services, each behind a port."""
