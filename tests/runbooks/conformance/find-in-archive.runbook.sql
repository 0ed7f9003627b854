SELECT * FROM log WHERE line LIKE {{ .words | squote }};
