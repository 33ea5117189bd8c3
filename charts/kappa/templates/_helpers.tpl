{{- define "kappa.labels" -}}
app.kubernetes.io/name: kappa-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "kappa.selector" -}}
app.kubernetes.io/name: kappa-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The ids of the user of pods, or `assigned` where the platform assigns them. */}}
{{- define "kappa.podUser" -}}
{{- $openShift := .Capabilities.APIVersions.Has "security.openshift.io/v1" }}
{{- if or (eq .Values.podUser.source "Assigned") (and (eq .Values.podUser.source "Auto") $openShift) -}}
assigned
{{- else -}}
{{ int64 .Values.podUser.user }}:{{ int64 .Values.podUser.group }}:{{ int64 .Values.podUser.volumes }}
{{- end }}
{{- end }}

{{/* Whether cert-manager keeps the certificate of the endpoints, rather than the operator. */}}
{{- define "kappa.certManager" -}}
{{- if and .Values.admission.enabled .Values.admission.certManager.enabled }}true{{ end }}
{{- end }}

{{/* The Secret with the certificate of the endpoints. cert-manager and the operator use different Secrets, so that neither changes that of the other. */}}
{{- define "kappa.certificate" -}}
kappa-operator-{{ if include "kappa.certManager" . }}issued{{ else }}tls{{ end }}
{{- end }}

{{/* A namespace has no dots, so two installations never share this name. */}}
{{- define "kappa.admission.webhook" -}}
{{ .Release.Namespace }}.{{ .Release.Name }}.pipelines.kappa-platform.io
{{- end }}

{{/* Addresses outside of the cluster, as peers of a NetworkPolicy. */}}
{{- define "kappa.outside" -}}
{{- $inside := concat .Values.networkPolicies.metadataCidrs .Values.networkPolicies.podCidrs }}
{{- range $all := list "0.0.0.0/0" "::/0" }}
{{- $except := list }}
{{- range $inside }}
{{- if eq (contains ":" $all) (contains ":" .) }}
{{- $except = append $except . }}
{{- end }}
{{- end }}
- ipBlock:
    cidr: {{ $all | quote }}
    {{- with $except }}
    except: {{ toJson . }}
    {{- end }}
{{- end }}
{{- end }}

{{/* The values on the policies that the operator creates, as its environment has them. */}}
{{- define "kappa.network" -}}
{{- $network := .Values.networkPolicies }}
{{- if $network.enabled }}
{{- dict "prometheus" $network.prometheus "api" $network.apiServer.ports "dns" $network.dnsPorts "inside" (concat $network.metadataCidrs $network.podCidrs) "ingress" $network.pipelines.ingress "egress" $network.pipelines.egress | toJson }}
{{- end }}
{{- end }}

{{/* Permissions of the operator on its own kinds, and to report about them. */}}
{{- define "kappa.rules.platform" -}}
- apiGroups: [kappa-platform.io]
  resources: [kafkaclusters, topics, statestores, pipelines, savepoints, lagpolicies, cdcsources, reprocessings]
  verbs: [get, list, watch, patch]
- apiGroups: [kappa-platform.io]
  resources: [kafkaclusters/status, topics/status, statestores/status, pipelines/status, savepoints/status, lagpolicies/status, cdcsources/status, reprocessings/status]
  verbs: [patch]
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end }}

{{/* Permissions of the operator in a namespace with resources, including those that it grants to drivers. */}}
{{- define "kappa.rules.namespace" -}}
- apiGroups: [kappa-platform.io]
  resources: [savepoints]
  verbs: [create, delete]
- apiGroups: [kappa-platform.io]
  resources: [topics]
  verbs: [create, delete]
- apiGroups: [kappa-platform.io]
  resources: [reprocessings]
  verbs: [create]
- apiGroups: [kappa-platform.io]
  resources: [executors]
  verbs: [create]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, create, delete, deletecollection]
- apiGroups: [""]
  resources: [pods/log]
  verbs: [get]
- apiGroups: [kappa-platform.io]
  resources: [executormounts]
  verbs: [use]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, create, patch]
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, create, delete]
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, create, patch, delete]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, create, patch]
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, create, patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [list]
{{- end }}
