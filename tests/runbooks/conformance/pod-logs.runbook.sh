{{- range $i, $pod := .pods | required "which pods?" | type "textarea" | split " " }}
{{- if gt $i 2 }}
# more than three are left out
{{- break }}
{{- end }}
kubectl logs --tail={{ $.tail | type "number" | default "100" }} {{ $pod | squote }}
{{- end }}
