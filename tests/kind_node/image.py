"""A node image for kind, made of Debian packages, kind's own files and the programs of the native provider."""

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from slipway.devcluster.images import archives
from slipway.devcluster.images.archives import image_cache
from slipway.devcluster.kind.programs import KIND, docker
from slipway.devcluster.programs import binaries, packages
from slipway.devcluster.programs.components import COMPONENTS, CONTROL_PLANE, KUBERNETES, REAL, GoModule, kubernetes
from slipway.devcluster.programs.packages import find_tool
from slipway.devcluster.progress import Silent, StepReporter, step
from tests.go_modules import download

NODE_IMAGE: Final = "slipway.local/kind-node:1"
BASE: Final = "slipway.local/kind-base:1"
DEBIAN: Final = (
    "systemd", "systemd-sysv", "dbus", "containerd", "runc", "containernetworking-plugins", "conntrack", "iptables",
    "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod", "procps", "bash", "ca-certificates", "curl", "jq",
    "libseccomp2", "pigz", "e2fsprogs",
)  # fmt: skip
"""The packages of kind's own recipe that Debian has, and those that bring what the recipe builds."""
GO_MODULE: Final = GoModule(Path(__file__).parent / "gomod", KUBERNETES)
KUBEADM: Final = kubernetes("kubeadm", "version", module=GO_MODULE)
FILES: Final = Path(__file__).parent
ADDRESSES: Final = "slipway.local/node-addresses:1"
"""Image of what gives pods their addresses and nodes their routes, in place of kindnet."""


@dataclass(frozen=True)
class Program(archives.Image):
    """An image whose program takes the arguments of its pod."""

    entrypoint: tuple[str, ...] = ()

    def config(self) -> bytes:
        """The image's configuration, with the entrypoint."""
        found = json.loads(super().config())
        found["config"]["Entrypoint"] = list(self.entrypoint)
        return json.dumps(found, sort_keys=True).encode()


def fetch(progress: StepReporter | None = None) -> dict[str, Path]:
    """Everything that the image is made of, from registries and Debian; returns the programs."""
    progress = progress or Silent()
    packages.ensure(packages.IMAGES, progress)
    _debian()
    _recipe()
    return binaries.ensure([*CONTROL_PLANE, *REAL, "kubeadm"], progress, COMPONENTS | {"kubeadm": KUBEADM})


def build(progress: StepReporter | None = None) -> str:
    """Make the image in the engine that `docker` leads to; returns its name."""
    progress, programs = progress or Silent(), fetch(progress)
    with step(progress, "Building a node image for kind"), tempfile.TemporaryDirectory() as folder:
        docker("import", str(_debian()), BASE)
        _context(Path(folder), programs)
        docker("build", "--network=none", f"--tag={NODE_IMAGE}-bare", folder, seconds=600)
        _with_images(_archive(programs))
    return NODE_IMAGE


def _debian() -> Path:
    key = sha256(" ".join(DEBIAN).encode()).hexdigest()[:12]
    path = image_cache() / f"kind-base-{key}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new.tar")
        without = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "locale")]
        mmdebstrap = [find_tool("mmdebstrap") or "mmdebstrap", "--variant=minbase", *without]
        subprocess.run([*mmdebstrap, f"--include={','.join(DEBIAN)}", "bookworm", str(new)], check=True)
        new.rename(path)
    return path


def _recipe() -> Path:
    return download(f"{KIND.package}@v{KIND.version}") / "images/base/files"


def _context(folder: Path, programs: Mapping[str, Path]) -> None:
    shutil.copytree(_recipe(), folder / "files", copy_function=shutil.copyfile)
    for path in (folder / "files").rglob("*"):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" or path.parent.name == "bin" else 0o644)
    manifests = folder / "files/kind/manifests"
    manifests.mkdir()
    shutil.copy(FILES / "default-cni.yaml", manifests)
    (folder / "files/kind/version").write_text(f"v{KUBERNETES}")
    (folder / "files/usr/bin").mkdir()
    for name in ("kubeadm", "kubectl", "kubelet"):
        shutil.copy(programs[name], folder / "files/usr/bin" / name)
    (folder / "Dockerfile").write_text((FILES / "Dockerfile").read_text().replace("BASE", BASE))


def _archive(programs: Mapping[str, Path]) -> Path:
    """An archive with all images that kubeadm's pods name, and those that every node of a local cluster has."""
    path = image_cache() / "kind-images.tar"
    version = f"v{KUBERNETES}"
    wanted = [
        _image("kube-apiserver", version, programs),
        _image("kube-controller-manager", version, programs),
        _image("kube-scheduler", version, programs),
        _image("kube-proxy", version, programs, _files_of(*_iptables())),
        _image("etcd", f"{COMPONENTS['etcd'].version}-0", programs),
        _image("coredns", f"v{COMPONENTS['coredns'].version}", programs, _NAMES, repository="coredns/coredns"),
        _image("kubectl", "1", programs, _busybox(), reference=ADDRESSES),
    ]
    archives.write(path, [*wanted, archives.Image("registry.k8s.io/pause:3.10", (_layer("pause", _busybox()),),
                                                  ("/bin/sleep", "2147483647"))])  # fmt: skip
    return path


def _image(
    name: str,
    tag: str,
    programs: Mapping[str, Path],
    more: Mapping[str, Path | bytes] | None = None,
    repository: str = "",
    reference: str = "",
) -> Program:
    layer = _layer(name, {f"usr/local/bin/{name}": programs[name], **(more or {})})
    entrypoint = ("/bin/sh", "/start") if name == "coredns" else ()
    return Program(reference or f"registry.k8s.io/{repository or name}:{tag}", (layer,), entrypoint=entrypoint)


_COREFILE: Final = b""".:53 {
    errors
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
    }
}
"""
_START: Final = b"busybox httpd -p 8080 -h /health-of-names && exec coredns -conf /Corefile\n"
_NAMES: Final[dict[str, Path | bytes]] = {
    "start": _START, "Corefile": _COREFILE, "health-of-names/health": b"OK\n",
    "bin/busybox": Path(find_tool("busybox") or "busybox").resolve(),
}  # fmt: skip
"""The native provider's CoreDNS has not all the plugins that kubeadm configures; its probes ask at /health."""


def _layer(name: str, files: Mapping[str, Path | bytes]) -> archives.Layer:
    links = {f"bin/{one}": "busybox" for one in _applets()} if "bin/busybox" in files else {}
    if "usr/sbin/xtables-nft-multi" in files:
        links |= {f"usr/sbin/{one}": "xtables-nft-multi" for one in _IPTABLES}
    path = image_cache() / f"kind-{name}.layer"
    path.with_suffix(".sha256").unlink(missing_ok=True)
    return archives.tar_layer(path, dict(files), links, ["tmp", "etc", "run", "var"])


def _busybox() -> dict[str, Path | bytes]:
    return {"bin/busybox": Path(find_tool("busybox") or "busybox").resolve()}


def _applets() -> list[str]:
    busybox = find_tool("busybox") or "busybox"
    names = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return [name for name in names if name != "busybox"]


_IPTABLES: Final = ("iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore")


def _iptables() -> list[Path]:
    tool = find_tool("xtables-nft-multi")
    assert tool is not None, "the package iptables is missing"
    return [Path(tool), *Path("/usr/lib").glob("*/xtables/*.so")]


def _files_of(program: Path, *modules: Path) -> dict[str, Path | bytes]:
    """A program and all libraries that it needs, by where it looks for them."""
    said = subprocess.run(["ldd", program, *modules], capture_output=True, text=True, check=True).stdout
    libraries = {
        Path(word) for line in said.splitlines() for word in line.split() if word.startswith("/") and ":" not in word
    }
    found: dict[str, Path | bytes] = {str(one).lstrip("/"): one.resolve() for one in (*libraries, *modules)}
    return {**found, f"usr/sbin/{program.name}": program.resolve()}


def _with_images(archive: Path) -> None:
    """Load the archive into the containerd of the image, and commit that, as kind's own build does."""
    name = "slipway-kind-build"
    docker("run", "--detach", f"--name={name}", "--privileged", "--network=none", "--entrypoint=sleep",
           f"{NODE_IMAGE}-bare", "infinity")  # fmt: skip
    try:
        docker("exec", "--detach", name, "containerd")
        docker("cp", str(archive), f"{name}:/images.tar", seconds=600)
        wait = "for i in $(seq 100); do ctr version >/dev/null 2>&1 && break; sleep 0.2; done"
        load = "ctr --namespace=k8s.io images import --no-unpack /images.tar && rm /images.tar"
        docker("exec", name, "sh", "-c", f"{wait}; {load}", seconds=600)
        change = ("--change", 'ENTRYPOINT ["/usr/local/bin/entrypoint", "/sbin/init"]', "--change", "CMD []")
        docker("commit", *change, name, NODE_IMAGE, seconds=600)
    finally:
        docker("rm", "--force", "--volumes", name)
