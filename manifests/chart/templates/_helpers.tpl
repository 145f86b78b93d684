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
