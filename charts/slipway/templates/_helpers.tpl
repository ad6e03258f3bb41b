{{/*
Name of every object, or the beginning of it: the release's, which mentions slipway either way. A release may have dots
in its name and a Service may not; and what follows must fit into the 63 characters that a Service and a Pod have.
*/}}
{{- define "slipway.name" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $made := contains $name .Release.Name | ternary .Release.Name (printf "%s-%s" .Release.Name $name) -}}
{{ .Values.fullnameOverride | default $made | replace "." "-" | trunc 53 | trimSuffix "-" }}
{{- end -}}

{{/* Labels that select the operator's pods; they never change. */}}
{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- with omit (.Values.labels | default dict) "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Annotations and labels of an object; the labels come last, so that one more may follow. */}}
{{- define "slipway.metadata" -}}
{{ include "slipway.metadataWith" (list . dict) }}
{{- end -}}

{{/* The same with further labels of this object; takes the root and them. */}}
{{- define "slipway.metadataWith" -}}
{{- with (index . 0).Values.annotations -}}
annotations:
  {{- toYaml . | nindent 2 }}
{{ end -}}
labels:
  {{- include "slipway.labelsWith" . | nindent 2 }}
{{- end -}}

{{/* Labels of which further ones replace those of their names: a key that stands there twice, kustomize and Flux refuse. */}}
{{- define "slipway.labelsWith" -}}
{{- $labels := include "slipway.labels" (index . 0) }}
{{- with index . 1 }}
{{- $labels = mergeOverwrite ($labels | fromYaml) . | toYaml }}
{{- end }}
{{- $labels }}
{{- end -}}

{{/* The image of the operator, which its pods and the init containers of jobs with directories run. */}}
{{- define "slipway.image" -}}
{{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{/* The times of the Lease, as the operator's options. It refuses the same combinations; here `helm install` does. */}}
{{- define "slipway.leaseTimes" -}}
{{- $duration := .Values.lease.durationSeconds | int -}}
{{- $deadline := .Values.lease.renewDeadlineSeconds | int -}}
{{- $retry := .Values.lease.retryPeriodSeconds | int -}}
{{- if or (gt (mul 10 $deadline) (mul 9 $duration)) (ge $deadline $duration) }}
{{- fail (printf "lease.renewDeadlineSeconds %d is too long for lease.durationSeconds %d: at most nine tenths of it, and a second less than it" $deadline $duration) }}
{{- end }}
{{- if gt (mul 3 $retry) (int64 $deadline) }}
{{- fail (printf "lease.retryPeriodSeconds %d is too long for lease.renewDeadlineSeconds %d: at most a third of it" $retry $deadline) }}
{{- end -}}
- --lease-duration={{ $duration }}
- --renew-deadline={{ $deadline }}
- --retry-period={{ $retry }}
{{- end -}}

{{/* Whether the release has what the whole cluster shares: roles for people, ValidatingAdmissionPolicies. */}}
{{- define "slipway.shared" -}}
{{- if or .Values.crds.install (not .Values.namespaces) }}true{{ end -}}
{{- end -}}

{{/* Where policies hold: the namespaces of the dictionary's `selector` that the release serves. */}}
{{- define "slipway.servedSelector" -}}
{{- $selector := deepCopy .selector }}
{{- with .served }}
{{- $named := dict "key" "kubernetes.io/metadata.name" "operator" "In" "values" . }}
{{- $_ := set $selector "matchExpressions" (append ($selector.matchExpressions | default list) $named) }}
{{- end }}
{{- toYaml $selector }}
{{- end -}}

{{/*
Which requests policies look at. Whatever a job asks for, it can be stopped; and it can be deleted: the garbage collector
takes a finalizer off an object with an UPDATE that leaves its spec alone.
*/}}
{{- define "slipway.matchConditions" -}}
- name: runs
  expression: >-
    request.operation == "CREATE" || object.spec != oldObject.spec
    && !(object.spec.?suspend.orValue(false) || object.spec.?cancel.orValue(false))
{{- end -}}

{{/* The rest of a binding of the operator's ServiceAccount; takes the root, the kind of the role and its name. */}}
{{- define "slipway.bound" }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ index . 1 }}
  name: {{ index . 2 | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "slipway.name" (index . 0) | quote }}
    namespace: {{ (index . 0).Release.Namespace | quote }}
{{- end -}}

{{/* What all pods of the release have in common; their containers are what Pod Security calls restricted. */}}
{{- define "slipway.pod" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "slipway.securityContext" -}}
runAsUser: 65532
runAsGroup: 65532
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
