"""What the API server refuses pods for: each of its messages in words that say whose rule it is."""

import pytest

from slipway.core.explain.api_server import ROWS, explain_rejection

POD = 'pods "train-0-0-0" is forbidden: '
MESSAGES = {
    "a service account": (
        POD + 'error looking up service account ml/trainer: serviceaccount "trainer" not found',
        "MissingObjects",
        "ServiceAccount trainer is missing; create it; the pods are then created",
    ),
    "a priority class": (
        POD + "no PriorityClass with name high was found",
        "MissingObjects",
        "PriorityClass high is missing; create it; the pods are then created",
    ),
    "a runtime class": (
        POD + 'pod rejected: RuntimeClass "gvisor" not found',
        "MissingObjects",
        "RuntimeClass gvisor is missing; create it; the pods are then created",
    ),
    "a quota": (
        POD + "exceeded quota: tpus, requested: requests.google.com/tpu=4, used: requests.google.com/tpu=6, "
        "limited: requests.google.com/tpu=8",
        "QuotaExceeded",
        "exceeded quota tpus: a pod requests requests.google.com/tpu=4, and requests.google.com/tpu=6 of "
        "requests.google.com/tpu=8 are used; let other pods of the namespace end, or have the ResourceQuota raised",
    ),
    "two resources of a quota": (
        POD
        + "exceeded quota: q, requested: limits.cpu=2,pods=1, used: limits.cpu=1,pods=2, limited: limits.cpu=1,pods=2",
        "QuotaExceeded",
        "exceeded quota q: a pod requests limits.cpu=2,pods=1, and limits.cpu=1,pods=2 of limits.cpu=1,pods=2 are "
        "used; "
        "let other pods of the namespace end, or have the ResourceQuota raised",
    ),
    "a quota of Secrets": (
        'secrets "train-ray-1" is forbidden: exceeded quota: team, requested: count/secrets=1,secrets=1, used: '
        "count/secrets=5,secrets=5, limited: count/secrets=5,secrets=5",
        "QuotaExceeded",
        "exceeded quota team: a Secret for Ray is needed, and 5 of 5 are used; delete what the namespace no longer "
        "needs, or have the ResourceQuota raised",
    ),
    "a quota of NetworkPolicies": (
        'networkpolicies.networking.k8s.io "train-ray" is forbidden: exceeded quota: q, requested: '
        "count/networkpolicies.networking.k8s.io=1, used: count/networkpolicies.networking.k8s.io=2, limited: "
        "count/networkpolicies.networking.k8s.io=2",
        "QuotaExceeded",
        "exceeded quota q: a NetworkPolicy is needed, and 2 of 2 are used; delete what the namespace no longer needs, "
        "or have the ResourceQuota raised",
    ),
    "a quota of which nothing more is said": (
        POD + "exceeded quota: tpus",
        "QuotaExceeded",
        "exceeded quota: tpus; have the ResourceQuota raised",
    ),
    "a quota of CPU": (
        POD + "failed quota: cpu: must specify limits.cpu for: worker; requests.cpu for: worker",
        "QuotaNeedsResources",
        "the ResourceQuota cpu takes only pods that specify limits.cpu for: worker; requests.cpu for: worker; set "
        "them in "
        "resources",
    ),
    "a limit range": (
        POD + "maximum cpu usage per Container is 1, but limit is 2",
        "LimitRangeExceeded",
        "a LimitRange of the namespace refuses the pod: maximum cpu usage per Container is 1, but limit is 2; change "
        "resources, or have the LimitRange changed",
    ),
    "two rules of a limit range": (
        POD
        + "[minimum memory usage per Pod is 2Gi, but request is 1Gi, cpu max limit to request ratio per Container is "
        "2, but provided ratio is 4.0]",
        "LimitRangeExceeded",
        "a LimitRange of the namespace refuses the pod: minimum memory usage per Pod is 2Gi, but request is 1Gi, cpu "
        "max "
        "limit to request ratio per Container is 2, but provided ratio is 4.0; change resources, or have the "
        "LimitRange "
        "changed",
    ),
    "Pod Security": (
        POD
        + 'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "worker" must set '
        "securityContext.allowPrivilegeEscalation=false)",
        "PodSecurityViolated",
        "the namespace enforces the Pod Security Standard restricted, which forbids: allowPrivilegeEscalation != false "
        '(container "worker" must set securityContext.allowPrivilegeEscalation=false); change securityContext or '
        "volumes "
        "as it says, or run the job in a namespace that allows them",
    ),
    "a webhook": (
        'admission webhook "images.example.com" denied the request: images come from registry.example.com only',
        "WebhookDenied",
        "the admission webhook images.example.com denies the pod: images come from registry.example.com only; change "
        "what "
        "it names, or ask those who run the webhook",
    ),
    "a webhook that gives no reason": (
        'admission webhook "images.example.com" denied the request without explanation',
        "WebhookDenied",
        "the admission webhook images.example.com denies the pod: no reason given; change what it names, or ask "
        "those who "
        "run the webhook",
    ),
    "a policy": (
        POD + "ValidatingAdmissionPolicy 'images' with binding 'images' denied request: images need a digest",
        "PolicyDenied",
        "the ValidatingAdmissionPolicy images denies the pod: images need a digest; change what it names, or ask those "
        "who administer the cluster",
    ),
    "a policy on Services": (
        "services \"train\" is forbidden: ValidatingAdmissionPolicy 'mesh' with binding 'mesh' denied request: no",
        "PolicyDenied",
        "the ValidatingAdmissionPolicy mesh denies the Service: no; change what it names, or ask those who administer "
        "the cluster",
    ),
    "a webhook that is away": (
        'Internal error occurred: failed calling webhook "images.example.com": failed to call webhook: Post '
        '"https://x": '
        "dial tcp 127.0.0.1:1: connect: connection refused",
        "WebhookUnavailable",
        "the admission webhook images.example.com does not answer, and without it the API server creates no pods; "
        "mend or "
        "remove the webhook; the pods are then created",
    ),
    "a Kueue that may not read SliceJobs": (
        'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
        '"https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": context deadline exceeded',
        "WebhookUnavailable",
        "the admission webhook mpod.kb.io of Kueue does not answer in time, and without it the API server creates no "
        "pods; if Kueue runs, let its ServiceAccount read SliceJobs: install the chart of Slipway with "
        "kueue.namespace; the pods are then created",
    ),
    "a Kueue that is away": (
        'Internal error occurred: failed calling webhook "mpod.kb.io": failed to call webhook: Post '
        '"https://kueue-webhook-service.kueue-system.svc:443/mutate--v1-pod?timeout=10s": dial tcp 127.0.0.1:1: '
        "connect: connection refused",
        "WebhookUnavailable",
        "the admission webhook mpod.kb.io does not answer, and without it the API server creates no pods; mend or "
        "remove the webhook; the pods are then created",
    ),
    "a role": (
        'pods is forbidden: User "system:serviceaccount:slipway:slipway" cannot create resource "pods" in API group '
        '"" in '
        'the namespace "ml"',
        "OperatorForbidden",
        "Slipway (system:serviceaccount:slipway:slipway) may not create pods in this namespace; bind the role of "
        "Slipway's chart in the namespace",
    ),
}


@pytest.mark.parametrize(("message", "reason", "words"), MESSAGES.values(), ids=MESSAGES)
def test_the_rule_in_the_way_is_named(message: str, reason: str, words: str) -> None:
    found = explain_rejection(message)
    assert found is not None
    assert (found.reason, f"{found.message}; {found.next_step}") == (reason, words)


def test_every_row_has_a_message() -> None:
    first = {next(row for row in ROWS if row.pattern.search(message)) for message, *_ in MESSAGES.values()}
    assert first == set(ROWS)


def test_where_the_message_names_no_object_the_caller_does() -> None:
    found = explain_rejection('admission webhook "a.example.com" denied the request: no', "Secret for Ray")
    assert found is not None
    assert found.message == "the admission webhook a.example.com denies the Secret for Ray: no"


@pytest.mark.parametrize("message", ["", "spec.containers[0].image: Required value", "etcdserver: request timed out"])
def test_what_no_rule_explains_stays_in_the_servers_words(message: str) -> None:
    assert explain_rejection(message) is None
