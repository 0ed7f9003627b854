{{- define "postern.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* Short enough for the labels that Kubernetes makes of the names of parts: at most 63 characters. */}}
{{- define "postern.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "postern.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "postern.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Labels of one part, which selectors use: (list $ "gateway") */}}
{{- define "postern.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "postern.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end }}

{{- define "postern.labels" -}}
{{- $root := index . 0 -}}
{{ include "postern.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "postern.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "postern.gatewayAccount" -}}
{{- .Values.serviceAccount.gatewayName | default (printf "%s-gateway" (include "postern.fullname" .)) -}}
{{- end }}

{{- define "postern.agentAccount" -}}
{{- .Values.serviceAccount.agentName | default (printf "%s-agent" (include "postern.fullname" .)) -}}
{{- end }}

{{/* The secret with the certificate; empty if the gateway creates its own. */}}
{{- define "postern.tlsSecret" -}}
{{- with .Values.gateway.tls -}}
{{- if .existingSecret -}}
{{- .existingSecret -}}
{{- else if .certManager.enabled -}}
{{- printf "%s-tls" (include "postern.fullname" $) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/* The strictest level of Kubernetes's pod security standards. */}}
{{- define "postern.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
# Only a new volume: modes of files must not be widened at each start.
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "postern.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Where and how pods of a part run: (list $ "gateway" .Values.gateway) */}}
{{- define "postern.scheduling" -}}
{{- $root := index . 0 -}}
{{- $part := index . 2 -}}
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $part.nodeSelector }}
nodeSelector: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity: {{ toYaml . | nindent 2 }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Settings as TOML. Numbers of YAML are floats, which TOML keeps apart from integers. */}}
{{- define "postern.toml" -}}
{{- range $name, $value := . }}
{{ $name }} = {{ if kindIs "float64" $value }}{{ if eq $value (floor $value) }}{{ printf "%d" (int64 $value) }}{{ else }}{{ $value }}{{ end }}{{ else }}{{ toJson $value }}{{ end }}
{{- end }}
{{- end }}
