"""The demo's process."""

from postern.demo.runner import run

__all__ = ["run"]
