"""Words of query parameters that can be repeated, or separated by commas."""

from __future__ import annotations

from postern.errors import Invalid


def words(name: str, texts: list[str] | None, allowed: tuple[str, ...]) -> list[str]:
    """Return the words of repeated parameters and of comma lists. Raises Invalid for an unknown word."""
    selected = [word.strip() for text in texts or () for word in text.split(",") if word.strip()]
    for word in selected:
        if word not in allowed:
            raise Invalid(f"{name}: {word!r} is not one of {', '.join(allowed)}", field=name)
    return selected
