"""What operations and PartiQL statements would do."""
