"""Real nodes: each is a set of namespaces with containerd and a kubelet of its own inside."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from slipway.devcluster import paths, processes
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.kubeapi import KubeApi
from slipway.devcluster.native import cgroups, chips, images, network, node_files, store
from slipway.devcluster.native.addresses import Addresses
from slipway.devcluster.node_objects import healthy_tpus, is_ready
from slipway.devcluster.progress import StepReporter
from slipway.devcluster.spec import NodePlan
from slipway.devcluster.state import ClusterState

Launch = Callable[[str, list[str]], None]

_INIT = Path(__file__).parent / "node-init.sh"
_REGISTERED = re.compile("Successfully registered node|Node was previously registered")
_PLUGIN_REGISTERED = re.compile("Got registration request from device plugin")
_PLUGIN_WAITS = re.compile("waiting for the kubelet")
_ROUTER = """
set -e
mount -t tmpfs tmpfs /run
echo 1 >/proc/sys/net/ipv4/ip_forward
: >/run/slipway-ready
exec sleep 1000000000
"""


def short_id(state: ClusterState) -> str:
    """Return what tells this cluster's links and control groups from those of any other on the machine."""
    return sha256(str(state.folder).encode()).hexdigest()[:8]


def cgroup_prefix(state: ClusterState) -> str:
    """Return how the names of the cluster's control groups begin."""
    return f"slipway-{short_id(state)}-"


def link_name(state: ClusterState) -> str:
    """Return the name of the machine's link into the cluster."""
    return f"slw-{short_id(state)}"


def start_router(state: ClusterState, launch: Launch) -> None:
    """Make the router namespace and the machine's link into it."""
    launch("router", ["unshare", "--net", "--mount", "sh", "-c", _ROUTER])
    router = state.processes["router"].pid
    _await_ready(state, "router", router)
    network.link_machine(Addresses(state.number), link_name(state), router)


def start_services(state: ClusterState, launch: Launch) -> None:
    """Start name resolution and Services, inside the router."""
    addresses, router = Addresses(state.number), state.processes["router"].pid
    enter = ["nsenter", f"--net=/proc/{router}/ns/net", f"--mount=/proc/{router}/ns/mnt", "--"]
    secrets, corefile = state.folder / "pki", state.folder / "Corefile"
    corefile.write_text(network.corefile(addresses, str(secrets / "coredns.kubeconfig")))
    launch("coredns", [*enter, str(state.binaries["coredns"]), "-conf", str(corefile)])
    first = state.spec.nodes("real")[0].name
    proxy = str(state.binaries["kube-proxy"])
    kubeconfig = str(secrets / "kube-proxy.kubeconfig")
    launch("kube-proxy", [*enter, *network.proxy_command(proxy, kubeconfig, addresses, first)])


def start(state: ClusterState, plans: list[NodePlan], api: KubeApi, launch: Launch, progress: StepReporter) -> None:
    """Start real nodes side by side, and return when all are Ready with their TPUs."""
    if not plans:
        return
    disk = store.prepare([images.base_archive(), *state.images], progress)
    try:
        with ThreadPoolExecutor(len(plans)) as pool:
            list(pool.map(lambda plan: _start_one(state, plan, disk, api, launch), plans))
    except BaseException:
        kill(state, plans)
        clean(state, plans)
        raise


def _start_one(state: ClusterState, plan: NodePlan, disk: Path, api: KubeApi, launch: Launch) -> None:
    addresses, cgroup = Addresses(state.number), cgroup_prefix(state) + plan.name
    node_files.write(state, plan, addresses, cgroup)
    store.copy(disk, node_files.folder(state, plan.name) / "disk" / "containerd")
    cgroups.create(cgroup)
    place, kubelet = node_files.folder(state, plan.name), str(state.binaries["kubelet"])
    spaces = ["--mount", "--net", "--pid", "--uts", "--fork", "--kill-child"]
    launch(f"node/{plan.name}", ["unshare", *spaces, "sh", str(_INIT), str(place), plan.name, kubelet])
    init = _init_pid(state, plan.name)
    _await_ready(state, f"node/{plan.name}", init)
    network.link_node(addresses, plan.index, state.processes["router"].pid, init)
    plugin = f"chips/{plan.name}"
    if plan.tpus:
        waits = _next(_PLUGIN_WAITS, _log(state, plugin))
        launch(plugin, _inside(init, chips.command(state, plan)))
    config = f"--config={node_files.INSIDE}/containerd.toml"
    launch(f"containerd/{plan.name}", _inside(init, ["containerd", config]))
    images.await_runtime(state, plan.name, init)
    if plan.tpus:
        _await(state, plugin, waits, "wait for the kubelet")
    _start_kubelet(state, plan, api, launch)


def _inside(init: int, command: list[str]) -> list[str]:
    return ["nsenter", f"--target={init}", "--mount", "--net", "--pid", "--uts", "--", *command]


def _start_kubelet(state: ClusterState, plan: NodePlan, api: KubeApi, launch: Launch) -> None:
    name = f"kubelet/{plan.name}"
    log = _log(state, name)
    node, plugin = _next(_REGISTERED, log), _next(_PLUGIN_REGISTERED, log)
    launch(name, _inside(_init_pid(state, plan.name), node_files.kubelet_command(state, plan, Addresses(state.number))))
    _await(state, name, node, "register its node")
    if plan.tpus:
        # Until then the Node object of a kubelet that starts again offers chips that the kubelet does not have.
        _await(state, f"chips/{plan.name}", plugin, "register with the kubelet")
        await_chips(state, plan, api)
    _await(state, name, lambda: is_ready(api.find(f"/api/v1/nodes/{plan.name}")), "make its node Ready")


def await_chips(state: ClusterState, plan: NodePlan, api: KubeApi) -> None:
    """Wait until the Node object of a machine offers as many chips as are healthy."""
    path, healthy = f"/api/v1/nodes/{plan.name}", plan.tpus - len(chips.broken(state, plan.name))
    _await(state, f"kubelet/{plan.name}", lambda: healthy_tpus(api.find(path)) == healthy, "count its chips")


def restart_kubelet(state: ClusterState, plan: NodePlan, api: KubeApi, launch: Launch) -> None:
    """Start the kubelet of a node whose machine still runs."""
    if (record := state.processes.get(f"kubelet/{plan.name}")) is not None and record.alive():
        raise LocalClusterError(f"The kubelet of {plan.name} runs already.")
    _start_kubelet(state, plan, api, launch)


def _next(sign: re.Pattern[str], log: Path) -> Callable[[], bool]:
    """Return what tells whether the sign has come to a log once more since now."""

    def count() -> int:
        try:
            return len(sign.findall(log.read_text(errors="replace")))
        except FileNotFoundError:
            return 0

    before = count()
    return lambda: count() > before


def _log(state: ClusterState, name: str) -> Path:
    return state.log(name.replace("/", "-"))


def _await(state: ClusterState, name: str, condition: Callable[[], bool], what: str) -> None:
    log = _log(state, name)
    ok = processes.wait_until(lambda: condition() or not state.processes[name].alive(), processes.PATIENCE, 0.1)
    if not state.processes[name].alive():
        raise LocalClusterError(f"{name} ended instead of going on to {what}.", log=log)
    if not ok:
        raise LocalClusterError(f"{name} did not {what} within {processes.PATIENCE:.0f} s.", log=log)


def _await_ready(state: ClusterState, name: str, pid: int) -> None:
    marker = Path(f"/proc/{pid}/root/run/slipway-ready")
    # Before the namespaces exist, /proc/<pid>/root is the machine's own root, where there is no such file.
    _await(state, name, marker.exists, "set its namespaces up")


def _init_pid(state: ClusterState, node: str) -> int:
    """Return the pid, as the machine sees it, of a node's first process."""
    record = state.processes.get(f"node/{node}")
    if record is None or not record.alive():
        raise LocalClusterError(f"The node {node} is not running.", hint="`slipway cluster restore` brings it back.")
    processes.wait_until(lambda: bool(processes.children(record.pid)), processes.PATIENCE, 0.01)
    found = processes.children(record.pid)
    if not found:
        raise LocalClusterError(f"The node {node} did not start.", log=record.log)
    return found[0]


def kill(state: ClusterState, plans: Iterable[NodePlan]) -> None:
    """End nodes without warning, as if their power went."""
    names = [f"{part}/{plan.name}" for plan in plans for part in ("node", "containerd", "chips", "kubelet")]
    processes.end(state.processes[name] for name in names if name in state.processes)
    for name in names:
        state.processes.pop(name, None)


def clean(state: ClusterState, plans: Iterable[NodePlan]) -> None:
    """Remove what dead nodes left: links, control groups, disks."""
    for plan in plans:
        network.remove_node_link(plan.index, state.processes["router"].pid)
        cgroups.remove(cgroup_prefix(state) + plan.name)
        paths.delete_tree(node_files.folder(state, plan.name))


def load_images(state: ClusterState, archives: Iterable[Path]) -> None:
    """Load archives into every real node that runs."""
    wanted = list(archives)
    present = [plan for plan in state.spec.nodes("real") if f"node/{plan.name}" in state.processes]
    if present:
        with ThreadPoolExecutor(len(present)) as pool:
            list(pool.map(lambda plan: images.load(_init_pid(state, plan.name), plan.name, wanted), present))
