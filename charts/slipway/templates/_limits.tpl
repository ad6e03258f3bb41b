{{/*
CEL about the limits of a site, for ValidatingAdmissionPolicies. The operator refuses the same by
slipway/core/validation/limits.py; types of accelerators, hosts of TPU slices and mirrored images only it can tell.
*/}}

{{/*
The folders of nodes that a SliceJob asks for. Where the schema looks at nothing, a field may be null, which Kubernetes
takes for none: an expression that fails on it would let the job in, whatever else it asks for. What is no text where
text is needed becomes no pod either: the operator names it in the job's status.
*/}}
{{- define "slipway.pathVariables" -}}
- name: template
  expression: object.spec.?podTemplate.?spec.orValue({})
- name: volumes
  expression: >-
    dyn(object.spec.?volumes.orValue([]))
    + dyn(variables.template.?volumes.orValue(null) == null ? [] : variables.template.volumes)
- name: paths
  expression: >-
    (variables.volumes.filter(one, has(one.hostPath) && one.hostPath != null).map(one, one.hostPath.path)
    + (has(object.spec.workspace) && has(object.spec.workspace.hostPath)
    ? [dyn(object.spec.workspace.hostPath.path)] : [])).filter(path, type(path) == string)
{{- end -}}

{{/* What a SliceJob asks for. */}}
{{- define "slipway.limitVariables" -}}
{{ include "slipway.pathVariables" . }}
- name: slices
  expression: >-
    size(object.spec.?acceptableSlices.orValue([])) > 0 ? object.spec.acceptableSlices.max()
    : object.spec.?slices.orValue(1)
- name: hosts
  expression: "has(object.spec.accelerator) && !has(object.spec.accelerator.gpu) ? 0 : object.spec.?hosts.orValue(1)"
- name: containers
  expression: >-
    dyn(variables.template.?containers.orValue([]))
    + dyn(variables.template.?initContainers.orValue(null) == null ? [] : variables.template.initContainers)
- name: contexts
  expression: >-
    [object.spec.?securityContext.orValue({}), object.spec.?podSecurityContext.orValue({}),
    variables.template.?securityContext.orValue({})] + variables.containers.map(one, one.?securityContext.orValue({}))
- name: images
  expression: >-
    ([object.spec.?image.orValue("")] + variables.containers.map(one, one.?image.orValue(""))
    + variables.volumes.map(one, one.?image.?reference.orValue("")))
    .filter(one, type(one) == string && one != "")
    .map(one, one.contains("/") && one.split("/")[0].matches("[.:A-Z]|^localhost$") ? one
    : "docker.io/" + (one.contains("/") ? one : "library/" + one))
- name: accounts
  expression: >-
    [object.spec.?serviceAccountName.orValue(""), variables.template.?serviceAccountName.orValue(""),
    variables.template.?serviceAccount.orValue("")].filter(one, type(one) == string && one != "")
- name: begun
  expression: oldObject != null && oldObject.?status.?attempt.hasValue()
- name: onAccelerators
  # Which resources are accelerators only the operator can tell: here every extended resource is one.
  expression: >-
    (has(object.spec.accelerator) ? object.spec.accelerator.?gpu.?count.orValue(1) > 0
    : {{ hasKey ((.Values.site | default dict).defaults | default dict) "accelerator" }})
    || ([dyn(object.spec.?resources.orValue({}))] + variables.containers.map(one, one.?resources.orValue({})))
    .exists(one, one != null && [one.?limits.orValue({}), one.?requests.orValue({})].exists(given, given != null
    && given.exists(name, name.contains("/") && given[name] != null && string(given[name]) != "0")))
- name: classes
  expression: >-
    [object.spec.?priorityClassName.orValue(""), variables.template.?priorityClassName.orValue("")]
    .filter(one, type(one) == string && one != "")
{{- end -}}

{{/* Whether a container of the job has what Pod Security's baseline refuses. */}}
{{- define "slipway.beyondBaseline" -}}
variables.contexts.exists(one, one.?privileged.orValue(false)
|| one.?capabilities.?add.orValue([]).exists(capability, !(capability in ["AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE",
"FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"]))
|| one.?procMount.orValue("Default") != "Default"
|| one.?seccompProfile.?type.orValue("") == "Unconfined" || one.?appArmorProfile.?type.orValue("") == "Unconfined"
|| !(one.?seLinuxOptions.?type.orValue("") in
["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
|| one.?seLinuxOptions.?user.orValue("") != "" || one.?seLinuxOptions.?role.orValue("") != ""
|| one.?windowsOptions.?hostProcess.orValue(false)
|| one.?sysctls.orValue([]).exists(sysctl, !(sysctl.name in ["kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range",
"net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"])))
{{- end -}}

{{/*
The rules. `on` is a dictionary of CEL by limit: where to apply the rule; `to` of CEL that yields the limit; `by` is CEL
that yields the words for who limits. `unless` has words by limit that come before the cure. A limit that is not in `on`
has no rule.
*/}}
{{- define "slipway.limitRules" -}}
{{- $listed := "allowed.exists(one, one.endsWith('*') ? name.startsWith(one.substring(0, size(one) - 1)) : name == one)" }}
{{- with index .on "maxSlices" }}
- expression: "!({{ . }}) || variables.slices <= {{ $.to.maxSlices }}"
  messageExpression: >-
    "spec.slices " + string(variables.slices) + " is not allowed here (" + {{ $.by }} + ".maxSlices): at most "
    + string({{ $.to.maxSlices }})
{{- end }}
{{- with index .on "maxHosts" }}
- expression: "!({{ . }}) || variables.slices * variables.hosts <= {{ $.to.maxHosts }}"
  messageExpression: >-
    "spec.slices " + string(variables.slices) + " x " + string(variables.hosts) + " hosts is not allowed here ("
    + {{ $.by }} + ".maxHosts): at most " + string({{ $.to.maxHosts }}) + " hosts"
{{- end }}
{{- with index .on "hostPaths" }}
- expression: >-
    !({{ . }}) || variables.paths.all(path, !path.matches("(^|/)[.][.](/|$)") && {{ $.to.hostPaths }}
    .exists(one, (path + "/").startsWith(one.endsWith("/") ? one : one + "/")))
  messageExpression: >-
    "hostPath.path " + variables.paths.join(", ") + " is not allowed here (" + {{ $.by }}
    + ".hostPaths): allowed: " + (size({{ $.to.hostPaths }}) > 0 ? {{ $.to.hostPaths }}.join(", ")
    : "no folder of a node")
{{- end }}
{{- with index .on "hostNetwork" }}
- expression: >-
    !({{ . }}) || {{ $.to.hostNetwork }} || !(object.spec.?hostNetwork.orValue(false)
    || variables.template.?hostNetwork.orValue(false))
  messageExpression: >-
    "hostNetwork true is not allowed here (" + {{ $.by }} + ".hostNetwork): {{ $.unless.hostNetwork }}remove it"
{{- end }}
{{- with index .on "hostPorts" }}
- expression: >-
    !({{ . }}) || {{ $.to.hostPorts }}
    || !variables.containers.exists(one, one.?ports.orValue([]).exists(port, port.?hostPort.orValue(0) != 0))
  messageExpression: >-
    "a hostPort is not allowed here (" + {{ $.by }} + ".hostPorts): {{ $.unless.hostPorts }}remove it"
{{- end }}
{{- with index .on "hostProcesses" }}
- expression: >-
    !({{ . }}) || {{ $.to.hostProcesses }} || !(variables.template.?hostPID.orValue(false)
    || variables.template.?hostIPC.orValue(false))
  messageExpression: >-
    "podTemplate.spec.hostPID or hostIPC true is not allowed here (" + {{ $.by }} + ".hostProcesses): remove it"
{{- end }}
{{- with index .on "privileged" }}
- expression: >-
    !({{ . }}) || {{ $.to.privileged }} || !({{ include "slipway.beyondBaseline" $ | nindent 4 | trim }})
  messageExpression: >-
    "a securityContext is not allowed here (" + {{ $.by }}
    + ".privileged): at most what Pod Security calls baseline"
{{- end }}
{{- with index .on "serviceAccounts" }}
- expression: >-
    !({{ . }}) || [{{ $.to.serviceAccounts }}].all(allowed, variables.accounts.all(name, {{ $listed }}))
  messageExpression: >-
    "serviceAccountName " + variables.accounts.join(", ") + " is not allowed here (" + {{ $.by }}
    + ".serviceAccounts): allowed: " + {{ $.to.serviceAccounts }}.join(", ")
{{- end }}
{{- with index .on "priorityClasses" }}
- expression: >-
    !({{ . }}) || [{{ $.to.priorityClasses }}].all(allowed, variables.classes.all(name, {{ $listed }}))
  messageExpression: >-
    "priorityClassName " + variables.classes.join(", ") + " is not allowed here (" + {{ $.by }}
    + ".priorityClasses): allowed: " + {{ $.to.priorityClasses }}.join(", ")
{{- end }}
{{- with index .on "registries" }}
- expression: >-
    !({{ . }}) || variables.images.all(image, {{ $.to.registries }}.exists(one, image == one
    || image.startsWith(one.endsWith("/") ? one : one + "/") || (one.contains("/") && (image.startsWith(one + ":")
    || image.startsWith(one + "@")))))
  messageExpression: >-
    "image " + variables.images.join(", ") + " is not allowed here (" + {{ $.by }} + ".registries): allowed: "
    + {{ $.to.registries }}.join(", ")
{{- end }}
{{- end -}}
