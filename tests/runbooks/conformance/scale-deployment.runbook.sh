kubectl -n {{ .namespace | required "which namespace?" | options "staging" "production" | squote }} scale deployment/{{ .deployment | required "which deployment?" | pattern "^[a-z0-9-]+$" | squote }} --replicas={{ .replicas | type "number" | required "how many?" }}
{{- if eq .namespace "production" }}
kubectl -n production rollout status {{ printf "deployment/%s" .deployment | squote }} --timeout=5m
{{- end }}
