SELECT id, total FROM orders
WHERE status = {{ .status | type "select" | options "open" "in review" "closed" | default "open" | squote }}
ORDER BY created_at DESC
LIMIT {{ .limit | type "number" | default 50 | description "Rows | at most" }};
