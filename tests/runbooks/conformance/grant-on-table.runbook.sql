GRANT SELECT ON {{ .schema | default "public" | dquote }}.{{ .table | required "which table?" | dquote }} TO {{ .role | required "whom?" | dquote }};
