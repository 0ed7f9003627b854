"""Web applications and APIs over HTTP: what of a request is judged, and how each kind of body is read and masked."""
