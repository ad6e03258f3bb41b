"""The smallest change that would give a job its nodes: found by looking at the node pools again as if it were made.

A remedy is stated only when the job would fit after it, as far as Slipway can see. So it is not stated where pods of
others are not seen, and where somebody else's rules decide on the placement.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from slipway.api import names
from slipway.api.accelerators import AcceleratorError, resolve
from slipway.api.status import SliceJobStatus
from slipway.core.explain.candidates import Candidate, Ground, Kind, Obstacle, Request, request_of, said_alike, vacant
from slipway.core.explain.preemption import HIGHEST, ORDINARY, Standing, bar
from slipway.core.explain.wording import listed
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import Job, Settings

_NOT_TO_TOLERATE: Final = ("node-role.kubernetes.io/", "node.kubernetes.io/", names.NODE_SPOT)
"""Beginnings of taints that say more of a node than that it is somebody's."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change after which the job fits."""

    change: str
    """What is changed: a field of the spec, `uncordon` or `free`."""
    values: tuple[str | int | bool, ...]
    """The new value of the field, the least value of a PriorityClass, or the nodes or node pools."""
    words: str
    """What to do, for people."""
    sites: tuple[Candidate, ...]
    """Where the slices would go."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What a remedy is looked for in."""

    job: Job
    settings: Settings
    request: Request
    """What the workers of the job ask of nodes."""
    ground: Ground
    slices: int
    """Slices that the job wants."""
    sites: tuple[Candidate, ...]
    """The node pools or nodes as they are now."""
    standing: Standing = ORDINARY

    def open_to(self, job: Job) -> list[Candidate]:
        """The node pools or nodes that another job of this UID would find open."""
        return vacant(request_of(job, self.settings), self.ground)


def remedies(scene: Scene) -> Iterator[Remedy]:
    """Changes after which the job fits, the smallest first."""
    near = Search(scene.request, scene.sites, partial(_opened, scene))
    yield from near.selectors()
    yield from _reservation(scene)
    yield from near.tolerations()
    for search in (_fewer, _spot, _topology):
        yield from search(scene)
    yield from near.uncordoned()
    for search in (_outranked, _freed):
        yield from search(scene)


def _open(sites: Iterable[Candidate], passes: Callable[[Obstacle], bool]) -> list[Candidate]:
    """The sites that are open once certain obstacles are out of the way; those that are open already come first."""
    candidates = [site for site in sites if all(map(passes, site.obstacles))]
    return sorted(candidates, key=lambda site: bool(site.obstacles))


def _opened(scene: Scene, kind: Kind, what: str | None) -> tuple[Candidate, ...]:
    sites = _open(scene.sites, lambda obstacle: obstacle.kind is kind and what in (None, obstacle.what))
    return tuple(sites[: scene.slices]) if len(sites) >= scene.slices else ()


@dataclass(frozen=True, slots=True)
class Search:
    """Looks for one obstacle that alone keeps a job out, whether a slice has a site to itself or pods share it."""

    request: Request
    sites: Sequence[Candidate]
    opened: Callable[[Kind, str | None], tuple[Candidate, ...]]
    """Where the job would go with the obstacles of one kind out of the way, or one of them; nowhere if not all of it
    fits."""

    def selectors(self) -> Iterator[Remedy]:
        """Keys of the nodeSelector to remove."""
        for key in self._keys(Kind.LABEL):
            if key not in self.request.given_labels and (sites := self.opened(Kind.LABEL, key)):
                words = f"remove {key} from the nodeSelector: {_closed(sites)} would fit"
                yield Remedy("nodeSelector", (key,), words, sites)

    def tolerations(self) -> Iterator[Remedy]:
        """Taints to tolerate."""
        for key in self._keys(Kind.TAINT):
            if not key.startswith(_NOT_TO_TOLERATE) and (sites := self.opened(Kind.TAINT, key)):
                yield Remedy("tolerations", (key,), f"tolerate the taint {key}: {_closed(sites)} would fit", sites)

    def uncordoned(self) -> Iterator[Remedy]:
        """Nodes to uncordon."""
        if sites := self.opened(Kind.CORDONED, None):
            nodes = tuple(sorted({obstacle.what for site in sites for obstacle in site.obstacles}))
            yield Remedy("uncordon", nodes, f"uncordon {listed(nodes)} (kubectl uncordon)", sites)

    def _keys(self, kind: Kind) -> list[str]:
        return sorted({obstacle.what for site in self.sites for obstacle in site.obstacles if obstacle.kind is kind})


def _reservation(scene: Scene) -> Iterator[Remedy]:
    spec = scene.job.spec
    if spec is None or spec.accelerator is None or spec.accelerator.reservation is None:
        return
    if sites := _elsewhere(scene, {"reservation": None}):
        words = f"{_count(scene)} on {_named(sites)} now: recreate the job without accelerator.reservation"
        yield Remedy("accelerator.reservation", (spec.accelerator.reservation,), words, sites)


def _fewer(scene: Scene) -> Iterator[Remedy]:
    sites = tuple(_open(scene.sites, lambda one: False))
    if 0 < len(sites) < scene.slices:
        words = f"{len(sites)} of {scene.slices} slices fit now: recreate the job with acceptableSlices: [{len(sites)}]"
        yield Remedy("acceptableSlices", (len(sites),), words, sites)


def _spot(scene: Scene) -> Iterator[Remedy]:
    spec = scene.job.spec
    if spec is None or spec.accelerator is None:
        return
    spot = not spec.accelerator.spot
    sites = _elsewhere(scene, {"spot": spot})
    if sites:
        kind = "spot" if spot else "other"
        words = f"{_count(scene)} on {kind} nodes now: recreate the job with accelerator.spot: {str(spot).lower()}"
        yield Remedy("accelerator.spot", (spot,), words, sites)


def _topology(scene: Scene) -> Iterator[Remedy]:
    asked = scene.request.needs.selector
    label = asked.get(names.NODE_ACCELERATOR, "")
    shapes = {site.shape[1:] for site in scene.sites if site.shape[0] == label}
    for topology, chips in sorted(shapes - {(asked.get(names.NODE_TOPOLOGY), asked.get(names.NODE_CHIPS))}):
        try:
            shape = resolve(generation=label, topology=topology, chips_per_host=int(chips))
        except (AcceleratorError, ValueError):
            continue
        changes = {"type": shape.type, "topology": topology, "chips_per_host": int(chips)}
        sites = _elsewhere(scene, {"generation": None, "label": None, **changes})
        if sites:
            words = f"{_count(scene, of=f' of {shape.type} ({topology})')} now: recreate the job with that accelerator"
            yield Remedy("accelerator", (shape.type, topology, int(chips)), words, sites)


def _elsewhere(scene: Scene, changes: dict[str, object]) -> tuple[Candidate, ...]:
    """Where the slices would go with another accelerator; nothing when they do not all fit."""
    spec = scene.job.spec
    assert spec is not None
    assert spec.accelerator is not None
    changed = spec.model_copy(update={"accelerator": spec.accelerator.model_copy(update=changes)})
    # It would be applied anew, so that nothing counts with which this job was accepted.
    anew = replace(scene.job, spec=changed, given=None, status=SliceJobStatus(), accepted={})
    try:
        candidates = scene.open_to(anew)
    except InvalidSpec:
        return ()
    return tuple(candidates[: scene.slices]) if len(candidates) >= scene.slices else ()


def _outranked(scene: Scene) -> Iterator[Remedy]:
    """A higher priority, where that is what keeps the job out."""
    found, standing = bar(scene.request, scene.sites, scene.slices), scene.standing
    if found is None or found.enough >= HIGHEST or (standing.preempts and not standing.kept_out(found.least)):
        return
    words = standing.raised(found.enough, found.whose)
    yield Remedy("priorityClassName", (found.enough + 1,), words, found.open + found.held)


def _freed(scene: Scene) -> Iterator[Remedy]:
    sites = _open(scene.sites, lambda obstacle: obstacle.kind is Kind.HELD)[: scene.slices]
    taken = [site for site in sites if site.obstacles]
    if len(sites) == scene.slices and taken:
        held = "; ".join(f"{listed(names)}, which {words}" for names, words in said_alike(taken))
        yield Remedy("free", tuple(site.name for site in taken), f"wait for, or free, {held}", tuple(sites))


def _count(scene: Scene, of: str = "") -> str:
    return f"{scene.slices} slices{of} fit" if scene.slices > 1 else f"a slice{of} fits"


def _named(sites: Iterable[Candidate]) -> str:
    return listed([site.name for site in sites])


def _closed(sites: Iterable[Candidate]) -> str:
    return listed([site.name for site in sites if site.obstacles])
