{{- /* For a chart of your own that has this one as a dependency: include these where the comments say. */ -}}

{{- define "evenkeel.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* The policy file. Nothing is to be waited for at the end of a native sidecar: the application has stopped by then. */ -}}
{{- define "evenkeel.policies" -}}
watch: on
listen: 127.0.0.1:{{ .Values.evenkeel.port }}
admin: 0.0.0.0:{{ .Values.evenkeel.adminPort }}
drain:
  delay: {{ ternary .Values.app.stopSeconds 0 (eq .Values.mode "classic") }}s
  timeout: {{ .Values.evenkeel.drainSeconds }}s
{{ toYaml .Values.evenkeel.policies }}
{{- end }}

{{- /* Into the application container's env. */ -}}
{{- define "evenkeel.env" -}}
{{- $proxy := printf "http://127.0.0.1:%v" .Values.evenkeel.port }}
{{- $bypass := printf "%s,$(KUBERNETES_SERVICE_HOST)" (join "," .Values.evenkeel.noProxy) }}
{{- range list "HTTP_PROXY" "http_proxy" }}
- name: {{ . }}
  value: {{ $proxy | quote }}
{{- end }}
{{- range list "NO_PROXY" "no_proxy" }}
- name: {{ . }}
  value: {{ $bypass | quote }}
{{- end }}
{{- end }}

{{- /* Into initContainers (mode native) or as the first of containers (mode classic). */ -}}
{{- define "evenkeel.container" -}}
- name: evenkeel
  image: {{ .Values.evenkeel.image | quote }}
  imagePullPolicy: {{ .Values.evenkeel.imagePullPolicy }}
  {{- if eq .Values.mode "native" }}
  restartPolicy: Always
  {{- end }}
  args: [run, -c, /etc/evenkeel/policies.yaml]
  ports:
    - name: ek-admin
      containerPort: {{ .Values.evenkeel.adminPort }}
      protocol: TCP
  startupProbe:
    httpGet: {path: /readyz, port: ek-admin}
    periodSeconds: 1
    timeoutSeconds: 1
    failureThreshold: 30
  readinessProbe:
    httpGet: {path: /readyz, port: ek-admin}
    periodSeconds: 5
    timeoutSeconds: 2
    failureThreshold: 2
  livenessProbe:
    httpGet: {path: /livez, port: ek-admin}
    periodSeconds: 10
    timeoutSeconds: 2
    failureThreshold: 3
  securityContext:
    runAsUser: 65532
    runAsGroup: 65532
    {{- include "evenkeel.restricted" . | nindent 4 }}
  resources:
    {{- toYaml .Values.evenkeel.resources | nindent 4 }}
  volumeMounts:
    - name: evenkeel-policies
      mountPath: /etc/evenkeel
      readOnly: true
{{- end }}

{{- /* Into volumes. */ -}}
{{- define "evenkeel.volume" -}}
- name: evenkeel-policies
  configMap:
    name: {{ .Release.Name }}-evenkeel
{{- end }}

{{- define "evenkeel.restricted" -}}
runAsNonRoot: true
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}
