{{- define "pvc-prebinder.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The stock kube-scheduler, of the upstream version that a vendor's version begins with. */ -}}
{{- define "pvc-prebinder.kubeSchedulerImage" -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{- with .Values.secondKubeScheduler.image -}}
{{ .repository }}:{{ .tag | default (printf "v%d.%d.%d" $version.Major $version.Minor $version.Patch) }}
{{- end -}}
{{- end -}}

{{- define "pvc-prebinder.chart" -}}
{{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "pvc-prebinder.fullname" -}}
{{ .Values.fullnameOverride | default "pvc-prebinder" }}
{{- end -}}

{{- /* The ServiceAccount of a component: (list . VALUES COMPONENT). */ -}}
{{- define "pvc-prebinder.account" -}}
{{- $name := include "pvc-prebinder.fullname" (index . 0) -}}
{{- $component := index . 2 -}}
{{ (index . 1).serviceAccount.name | default (eq $component "controller" | ternary $name (printf "%s-%s" $name $component)) }}
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

{{- /* What a NetworkPolicy says of egress, after its policyTypes; empty if that is not limited. */ -}}
{{- define "pvc-prebinder.egress" -}}
{{- with .Values.networkPolicy.egress -}}
{{- if .enabled -}}
- Egress
egress:
- ports:
  - port: 53
    protocol: UDP
  - port: 53
    protocol: TCP
- ports:
  {{- range .ports }}
  - port: {{ . }}
  {{- end }}
  {{- with .to }}
  to:
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .extra }}
{{ toYaml . }}
{{- end }}
{{- end -}}
{{- end -}}
{{- end -}}
