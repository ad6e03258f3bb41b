{{/* Name of every object: the release's, which mentions slipway either way. */}}
{{- define "slipway.name" -}}
{{- if contains "slipway" .Release.Name -}}
{{ .Release.Name }}
{{- else -}}
{{ .Release.Name }}-slipway
{{- end -}}
{{- end -}}

{{/* Labels that select the operator's pods; they never change. */}}
{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* The image of the operator, which its pods and the init containers of jobs with directories run. */}}
{{- define "slipway.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
