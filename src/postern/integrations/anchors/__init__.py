"""Anchors: places outside of the store for checkpoints, each behind `store.ports.Anchor`."""
