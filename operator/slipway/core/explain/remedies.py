"""The smallest change that would give a job its nodes: found by looking at the node pools again as if it were made.

A remedy is stated only when the job would fit after it, as far as Slipway can see. So it is not stated where pods of
others are not seen, and where somebody else's rules decide on the placement.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from slipway.api import names
from slipway.api.accelerators import AcceleratorError, resolve
from slipway.api.status import SliceJobStatus
from slipway.core.explain.candidates import Candidate, Ground, Kind, Obstacle, Request, request_of, said_alike, vacant
from slipway.core.explain.preemption import HIGHEST, ORDINARY, Standing, bar
from slipway.core.explain.wording import listed
from slipway.core.manifests.effective import InvalidSpec
from slipway.core.model.job import Job, Settings


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
    for search in (_selectors, _reservation, _tolerations, _fewer, _spot, _topology, _uncordoned, _outranked, _freed):
        yield from search(scene)


def _open(sites: Iterable[Candidate], passes: Callable[[Obstacle], bool]) -> list[Candidate]:
    """The sites that are open once certain obstacles are out of the way; those that are open already come first."""
    candidates = [site for site in sites if all(map(passes, site.obstacles))]
    return sorted(candidates, key=lambda site: bool(site.obstacles))


def keys(sites: Iterable[Candidate], kind: Kind) -> list[str]:
    """What the obstacles of that kind are, in the order of their names."""
    return sorted({obstacle.what for site in sites for obstacle in site.obstacles if obstacle.kind is kind})


def _without(scene: Scene, kind: Kind) -> Iterator[tuple[str, list[Candidate]]]:
    """Each key of that kind of obstacle that alone keeps the job out, with the sites that are open without it."""
    for key in keys(scene.sites, kind):
        sites = _open(scene.sites, lambda one, key=key: one.kind is kind and one.what == key)  # type: ignore[misc]
        if len(sites) >= scene.slices:
            yield key, sites[: scene.slices]


def _selectors(scene: Scene) -> Iterator[Remedy]:
    for key, sites in _without(scene, Kind.LABEL):
        if key not in scene.request.given_labels:
            words = f"remove {key} from the nodeSelector: {_named(sites)} would fit"
            yield Remedy("nodeSelector", (key,), words, tuple(sites))


def _reservation(scene: Scene) -> Iterator[Remedy]:
    spec = scene.job.spec
    if spec is None or spec.accelerator is None or spec.accelerator.reservation is None:
        return
    if sites := _elsewhere(scene, {"reservation": None}):
        words = f"{_count(scene)} on {_named(sites)} now: recreate the job without accelerator.reservation"
        yield Remedy("accelerator.reservation", (spec.accelerator.reservation,), words, sites)


def _tolerations(scene: Scene) -> Iterator[Remedy]:
    for key, sites in _without(scene, Kind.TAINT):
        if key != names.NODE_SPOT:
            yield Remedy("tolerations", (key,), f"tolerate the taint {key}: {_named(sites)} would fit", tuple(sites))


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


def _uncordoned(scene: Scene) -> Iterator[Remedy]:
    sites = _open(scene.sites, lambda one: one.kind is Kind.CORDONED)[: scene.slices]
    if len(sites) == scene.slices:
        nodes = tuple(sorted({obstacle.what for site in sites for obstacle in site.obstacles}))
        words = f"uncordon {listed(nodes)} (kubectl uncordon)"
        yield Remedy("uncordon", nodes, words, tuple(sites))


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
