"""Why the API server does not create an object, in words for people: which rule is in the way, and whose it is."""

import re
from typing import Final

from slipway.core.explain.kubelet import Explanation, Trouble
from slipway.core.vocabulary.reasons import MISSING_OBJECTS, QUOTA_EXCEEDED, WEBHOOK_UNAVAILABLE

_KINDS: Final = {
    "serviceaccount": "ServiceAccount",
    "priorityclass": "PriorityClass",
    "runtimeclass": "RuntimeClass",
}
_POD: Final = "pod"
RAY_SECRET: Final = "Secret for Ray"
"""The only Secret of a job. With "Secret:" before them the words of a server would be taken for a secret and hidden."""
_OBJECTS: Final = {
    "pods": _POD,
    "configmaps": "ConfigMap",
    "networkpolicies": "NetworkPolicy",
    "secrets": RAY_SECRET,
    "services": "Service",
}
_REFUSED: Final = re.compile(rf'\b({"|".join(_OBJECTS)})(?:\.[a-z0-9.]+)? "[^"]*" is forbidden')


def _row(pattern: str, reason: str, message: str, next_step: str) -> Trouble:
    return Trouble(frozenset(), re.compile(pattern, re.IGNORECASE | re.DOTALL), reason, message, next_step)


ROWS: Final = (
    _row(
        r'(?P<kind>serviceaccount|runtimeclass) "(?P<name>[^"]+)" not found',
        MISSING_OBJECTS,
        "{kind} {name} is missing",
        "create it; the pods are then created",
    ),
    _row(
        r"no (?P<kind>priorityclass) with name (?P<name>\S+) was found",
        MISSING_OBJECTS,
        "{kind} {name} is missing",
        "create it; the pods are then created",
    ),
    _row(
        r'(?:configmaps|networkpolicies|secrets|services)\S* "[^"]*" is forbidden: exceeded quota: (?P<name>[^,]+), '
        r"requested: .+, used: \S+=(?P<used>\w+), limited: \S+=(?P<limit>\w+)",
        QUOTA_EXCEEDED,
        # Not in the server's words: `secrets=5` is no secret, but looks like one and would be hidden.
        "exceeded quota {name}: a {object} is needed, and {used} of {limit} are used",
        "delete what the namespace no longer needs, or have the ResourceQuota raised",
    ),
    _row(
        r"exceeded quota: (?P<name>[^,]+), requested: (?P<asked>.+), used: (?P<used>.+), limited: (?P<limit>[^;]+)",
        QUOTA_EXCEEDED,
        "exceeded quota {name}: a pod requests {asked}, and {used} of {limit} are used",
        "let other pods of the namespace end, or have the ResourceQuota raised",
    ),
    _row(r"(?P<what>exceeded quota.*)", QUOTA_EXCEEDED, "{what}", "have the ResourceQuota raised"),
    _row(
        r"failed quota: (?P<name>[^:]+): must specify (?P<what>.+)",
        "QuotaNeedsResources",
        "the ResourceQuota {name} takes only pods that specify {what}",
        "set them in resources",
    ),
    _row(
        r"(?P<what>(?:minimum|maximum) \S+ (?:usage|storage usage|request|limit)[^\]]* per (?:container|pod)[^\]]*"
        r"|\S+ max limit to request ratio per (?:container|pod)[^\]]*)",
        "LimitRangeExceeded",
        "a LimitRange of the namespace refuses the pod: {what}",
        "change resources, or have the LimitRange changed",
    ),
    _row(
        r'violates PodSecurity "(?P<name>[^":]+)[^"]*": (?P<what>.+)',
        "PodSecurityViolated",
        "the namespace enforces the Pod Security Standard {name}, which forbids: {what}",
        "change securityContext or volumes as it says, or run the job in a namespace that allows them",
    ),
    _row(
        r'admission webhook "(?P<name>[^"]+)" denied the request(?:: (?P<what>.+)| without explanation)',
        "WebhookDenied",
        "the admission webhook {name} denies the {object}: {what}",
        "change what it names, or ask those who run the webhook",
    ),
    _row(
        r"ValidatingAdmissionPolicy '(?P<name>[^']+)' with binding '[^']+' denied request: (?P<what>.+)",
        "PolicyDenied",
        "the ValidatingAdmissionPolicy {name} denies the {object}: {what}",
        "change what it names, or ask those who administer the cluster",
    ),
    _row(
        r'failed calling webhook "(?P<name>mpod\.kb\.io)".*(?:deadline exceeded|context canceled)',
        WEBHOOK_UNAVAILABLE,
        "the admission webhook {name} of Kueue does not answer in time, and without it the API server creates no pods",
        "if Kueue runs, let its ServiceAccount read SliceJobs: install the chart of Slipway with kueue.namespace; the "
        "pods are then created",
    ),
    _row(
        r'failed calling webhook "(?P<name>[^"]+)"',
        WEBHOOK_UNAVAILABLE,
        "the admission webhook {name} does not answer, and without it the API server creates no pods",
        "mend or remove the webhook; the pods are then created",
    ),
    _row(
        r'user "(?P<name>[^"]+)" cannot create resource "(?P<what>[^"]+)"',
        "OperatorForbidden",
        "Slipway ({name}) may not create {what} in this namespace",
        "bind the role of Slipway's chart in the namespace",
    ),
)
"""The first row that fits the message decides."""


def explain_rejection(message: str, what: str = _POD) -> Explanation | None:
    """Which rule keeps the API server from creating an object; None when no row fits its message.

    Args:
        message: the API server's.
        what: the kind of the object, for messages that do not name it.
    """
    for row in ROWS:
        if (found := row.pattern.search(message)) is not None:
            named = {key: (words or "no reason given").strip() for key, words in found.groupdict().items()}
            named["kind"] = _KINDS.get(named.get("kind", "").lower(), "")
            named["object"] = _OBJECTS[refused[1]] if (refused := _REFUSED.search(message)) is not None else what
            return Explanation(row.reason, row.message.format(**named), row.next_step)
    return None
