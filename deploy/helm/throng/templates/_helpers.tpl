{{- define "throng.name" -}}
{{- if contains "throng" .Release.Name }}{{ .Release.Name | trunc 52 | trimSuffix "-" }}{{ else }}{{ printf "%s-throng" .Release.Name | trunc 52 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "throng.kind" -}}
{{ ternary "StatefulSet" "Deployment" .Values.history.enabled }}
{{- end }}

{{/* Name of the port of an address in `listen`, by its place there. */}}
{{- define "throng.port" -}}
{{- if . }}clients-{{ . }}{{ else }}clients{{ end }}
{{- end }}

{{- define "throng.selector" -}}
app.kubernetes.io/name: throng
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "throng.labels" -}}
{{ include "throng.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}
