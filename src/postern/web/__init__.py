"""The web application as it is served: its built files, and the headers that they need. Its source is in `web/`."""
