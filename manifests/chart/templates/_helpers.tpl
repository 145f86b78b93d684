{{- define "pvc-prebinder.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "pvc-prebinder.annotationPrefix" -}}
{{ (.Values.config.binding).annotationPrefix | default "scheduler.cloud.example/" }}
{{- end -}}

{{- /* Not empty if the accounts are limited: if the API server has the policies, and the accounts may write at all. */ -}}
{{- define "pvc-prebinder.accountLimits" -}}
{{- if and .Values.accountLimits.enabled (not .Values.dryRun) (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) -}}
true
{{- end -}}
{{- end -}}
