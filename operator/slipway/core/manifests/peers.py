"""The workers of one attempt, and the names by which they find each other.

Whenever pods get their addresses, the control plane writes the Endpoints and EndpointSlices of their Service again. One
Service for thousands of pods would cost it more than the pods do, so a large job has several.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from slipway.api import names
from slipway.api.places import Place, Rank, worker
from slipway.api.status import Coordinator, Resolved
from slipway.core.manifests.metadata import metadata
from slipway.core.model.job import Job
from slipway.core.model.parts import Body

HOSTS_OF_A_SERVICE: Final = 64
"""Most hosts that share a Service, unless they are of one slice."""
LONGEST_INLINE_LIST: Final = 32
"""Up to this number of hosts the host list is in each pod; a longer one is in a ConfigMap."""

HOSTNAMES_KEY: Final = "hostnames"
PROCESS_ADDRESSES_KEY: Final = "processAddresses"
TPU_PROCESS_PORT: Final = 8471


@dataclass(frozen=True, slots=True)
class Peers:
    """The workers of an attempt with so many slices."""

    job: Job
    attempt: int
    slices: int
    resolved: Resolved

    @property
    def hosts(self) -> int:
        """Hosts of a slice."""
        return self.resolved.hosts

    @property
    def count(self) -> int:
        """How many workers there are."""
        return self.slices * self.hosts

    def rank(self, place: Place) -> Rank:
        """What the worker of a seat is to its program. No seat is spare, so each slice has the rank of its seats."""
        return Rank(place.slice, place.host)

    def seat(self, rank: Rank) -> Place:
        """The seat of a rank, the inverse of `rank`."""
        return worker(rank.slice, rank.host)

    def index(self, rank: Rank) -> int:
        """The number of a rank among all: slice after slice, host after host."""
        return rank.slice * self.hosts + rank.host

    @property
    def coordinator(self) -> Coordinator:
        """Where they meet: host 0 of slice 0, by a DNS name that is known before any pod exists."""
        address = f"{self._host_name(Rank(0, 0))}.{self.job.namespace}.svc"
        return Coordinator(address=address, port=self.resolved.coordinator_port)

    @property
    def recorded_coordinator(self) -> Coordinator | None:
        """The same as the status has it: that of several slices, and any that tells of several Services."""
        return self.coordinator if self.slices > 1 or self.has_several_services else None

    def host_names(self, slice_index: int) -> list[str]:
        """Names of the hosts of the slice of that rank in host order, as they resolve within the namespace."""
        return [self._host_name(Rank(slice_index, host)) for host in range(self.hosts)]

    def _host_name(self, rank: Rank) -> str:
        seat = self.seat(rank)
        return f"{names.hostname(self.attempt, seat.slice, seat.host)}.{self.service(seat.slice)}"

    @property
    def has_several_services(self) -> bool:
        """Whether the workers have several Services: those of all attempts as those of the first.

        Pods of an attempt that another version of Slipway has begun must be found by the names that its other pods
        know.
        """
        if self.job.status.attempt is None:
            return self.slices > 1 and self.count > HOSTS_OF_A_SERVICE
        meeting = self.job.status.coordinator
        return meeting is not None and f".{names.service_of_several(self.job.name, 0)}." in meeting.address

    def service(self, slice_index: int) -> str:
        """Name of the Service of the workers of a slice, which is the subdomain of their host names."""
        if not self.has_several_services:
            return self.job.name
        return names.service_of_several(self.job.name, slice_index // max(1, HOSTS_OF_A_SERVICE // self.hosts))

    def service_label(self, service: str) -> dict[str, str]:
        """The label by which the Service of that name selects its workers; none where there is one Service."""
        return {} if service == self.job.name else {names.LABEL_SERVICE: service}

    def services(self) -> tuple[Body, ...]:
        """The headless Services of all workers; never changed."""
        return tuple(map(self._service, dict.fromkeys(map(self.service, range(self.slices)))))

    def _service(self, name: str) -> Body:
        # For each pod that starts, the control plane compares this with the labels of all pods of the namespace.
        of_all = {names.LABEL_JOB_UID: self.job.uid, names.LABEL_ROLE: names.ROLE_WORKER}
        selector = self.service_label(name) or of_all
        return {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata(self.job, name, {}),
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
        }

    @property
    def have_host_lists(self) -> bool:
        """Whether the host lists are too long for variables, so that each slice has a ConfigMap with its own."""
        return self.hosts > LONGEST_INLINE_LIST

    def host_list(self, slice_index: int) -> str:
        """Name of the ConfigMap that holds a long host list."""
        return f"{self.job.name}-{self.attempt}-{slice_index}"

    def host_lists(self, places: Iterable[Place]) -> tuple[Body, ...]:
        """One immutable host list for each slice that these workers are for their programs, when the lists are long."""
        slices = {self.rank(place).slice for place in places if not place.is_head} if self.have_host_lists else ()
        return tuple(map(self._host_list, sorted(slices)))

    def _host_list(self, slice_index: int) -> Body:
        labels = {names.LABEL_ATTEMPT: str(self.attempt), names.LABEL_SLICE: str(slice_index)}
        peers = self.host_names(slice_index)
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(self.job, self.host_list(slice_index), labels),
            "immutable": True,
            "data": {HOSTNAMES_KEY: ",".join(peers), PROCESS_ADDRESSES_KEY: process_addresses(peers)},
        }


def process_addresses(hosts: list[str]) -> str:
    """Where the TPU processes of these hosts listen."""
    return ",".join(f"{host}:{TPU_PROCESS_PORT}" for host in hosts)
