SELECT {{ .limit | type "number" | default "10" | description "first" }};
SELECT {{ .limit | description "then" | order 1 }} -- {{ .other | order 0 }}
