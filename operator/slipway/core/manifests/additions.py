"""What a queue adds to the pods of a job that it admits."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slipway.api import names
from slipway.core.model.parts import Body


@dataclass(frozen=True, slots=True)
class PodAdditions:
    """What a queue adds to the pods of one podSet."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Body, ...] = ()
    gates: tuple[str, ...] = ()
    """Scheduling gates; with them the queue chooses the nodes, and Slipway's rules about node pools step aside."""

    def to(self, pod: Body) -> Body:
        """The body of a pod with these."""
        metadata, spec = pod["metadata"], pod["spec"]
        selector = {**(spec.get("nodeSelector") or {}), **self.node_selector}
        known = spec.get("tolerations") or []
        tolerations = [*known, *(toleration for toleration in self.tolerations if toleration not in known)]
        return pod | {
            "metadata": metadata
            | {
                "labels": {**metadata["labels"], **self.labels},
                "annotations": {**(metadata.get("annotations") or {}), **self.annotations},
            },
            "spec": spec
            | ({"nodeSelector": selector} if selector else {})
            | ({"tolerations": tolerations} if tolerations else {})
            | self._gated(spec),
        }

    def _gated(self, spec: Body) -> Body:
        if not self.gates:
            return {}
        affinity = {kind: _without_pools(rules) for kind, rules in (spec.get("affinity") or {}).items()}
        gates = [*(spec.get("schedulingGates") or ()), *({"name": gate} for gate in self.gates)]
        return {"schedulingGates": gates, "affinity": {kind: rules for kind, rules in affinity.items() if rules}}


def _without_pools(rules: Body) -> Body:
    """Rules of affinity without those that keep the pods of a slice in a node pool of their own."""
    kept = {
        when: [term for term in terms if names.LABEL_SLICE_KEY not in str(term.get("labelSelector"))]
        if isinstance(terms, list)
        else terms
        for when, terms in rules.items()
    }
    return {when: terms for when, terms in kept.items() if terms}


NO_ADDITIONS: Final = PodAdditions()
