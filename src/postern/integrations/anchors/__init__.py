"""Anchors: places outside of the store that keep checkpoints, each behind `store.ports.Anchor`."""
