"""Content of bodies: types, codings, charsets, and frames of WebSocket."""
