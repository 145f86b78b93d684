{{- define "pvc-prebinder.csiAgents" -}}
{{- range .Values.csiAgents }}
# Beside {{ .driver }}, in the pod of its controller in namespace {{ .namespace }}
- name: csi-agent
  image: {{ include "pvc-prebinder.image" $ }}
  args:
  - csi-agent
  - --csi-endpoint=$(CSI_DRIVER)=unix:///csi/$(CSI_SOCKET)
  - --metrics-bind-address=:9810
  - --health-bind-address=:9811
  - --log-format=json
  {{- with ($.Values.config.binding).annotationPrefix }}
  - --annotation-prefix={{ . }}
  {{- end }}
  env:
  - name: CSI_DRIVER
    value: {{ .driver }}
  - name: CSI_SOCKET
    value: {{ .socketFile }}
  ports:
  - name: agent-metrics
    containerPort: 9810
  - name: agent-health
    containerPort: 9811
  livenessProbe:
    httpGet:
      path: /livez
      port: agent-health
    initialDelaySeconds: 10
    periodSeconds: 10
    timeoutSeconds: 5
  resources:
    requests:
      cpu: 20m
      memory: 96Mi
    limits:
      memory: 384Mi
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    capabilities:
      drop:
      - ALL
    seccompProfile:
      type: RuntimeDefault
  volumeMounts:
  - name: {{ .socketVolume }}
    mountPath: /csi
    readOnly: true
{{- end }}
{{- end -}}
