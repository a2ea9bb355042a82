{{- define "headrace.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "headrace.selectorLabels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "headrace.labels" -}}
{{ include "headrace.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end -}}

{{- define "headrace.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "headrace.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "headrace.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end -}}

{{- define "headrace.properties" -}}
listeners={{ .Values.listener.securityProtocol }}://0.0.0.0:{{ .Values.listener.port }}
log.dirs=/var/lib/headrace/data
headrace.http.listener=http://0.0.0.0:{{ .Values.http.port }}
{{- if .Values.zookeeperConnect }}
zookeeper.connect={{ .Values.zookeeperConnect }}
{{- end }}
{{- if .Values.tls.secretName }}
ssl.keystore.type=PEM
ssl.keystore.location=/etc/headrace/tls/{{ .Values.tls.keystoreKey }}
ssl.truststore.type=PEM
ssl.truststore.location=/etc/headrace/tls/{{ .Values.tls.truststoreKey }}
{{- end }}
{{- if .Values.zookeeperConnect }}
security.inter.broker.protocol={{ .Values.listener.securityProtocol }}
{{- end }}
{{- range $name, $value := .Values.config }}
{{- if not (and (not $.Values.zookeeperConnect) (regexMatch "replication\\.factor$|min\\.isr$|^min\\.insync\\.replicas$" $name)) }}
{{ $name }}={{ kindIs "string" $value | ternary $value (toJson $value) }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.secretConfig }}
{{ $name }}={{ kindIs "string" $value | ternary $value (toJson $value) }}
{{- end }}
{{- end -}}

{{- define "headrace.check" -}}
{{- if and (not .Values.zookeeperConnect) (gt (int .Values.replicaCount) 1) -}}
{{- fail "zookeeperConnect is empty: several brokers need a ZooKeeper; set zookeeperConnect, or replicaCount=1" -}}
{{- end -}}
{{- if and (hasSuffix "SSL" .Values.listener.securityProtocol) (not .Values.tls.secretName) (not .Values.existingConfigSecret) -}}
{{- fail (printf "listener.securityProtocol=%s needs tls.secretName" .Values.listener.securityProtocol) -}}
{{- end -}}
{{- end -}}
