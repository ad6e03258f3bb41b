"""The programs a cluster is made of, and which versions of them are acceptable."""

from __future__ import annotations

import platform
import re
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

KUBERNETES = "1.36.3"


@dataclass(frozen=True)
class GoModule:
    """A Go module that programs are built in."""

    folder: Path
    kubernetes: str
    """The version of Kubernetes in it, which its programs report as their own."""

    @property
    def linker_flags(self) -> str:
        """Leave out what only debuggers read; without the version, clients would see v0.0.0."""
        major, minor, _ = self.kubernetes.split(".")
        stamps = {"gitVersion": f"v{self.kubernetes}", "gitMajor": major, "gitMinor": minor}
        packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        return " ".join(
            ["-s -w", *(f"-X {package}.{name}={stamp}" for package in packages for name, stamp in stamps.items())]
        )


GO_MODULE = GoModule(Path(__file__).parent / "gomod", KUBERNETES)


@dataclass(frozen=True)
class Component:
    """One program: how to recognise it and how to build it."""

    name: str
    version: str
    package: str
    version_arguments: tuple[str, ...] = ("--version",)
    official: bool = False
    module: GoModule = GO_MODULE

    @property
    def cache_key(self) -> str:
        """Name of the folder in the cache; what is built from source of ours depends on that as well."""
        if not self.package.startswith("./"):
            return self.version
        source = b"".join(path.read_bytes() for path in sorted((self.module.folder / self.package).glob("*.go")))
        return f"{self.version}-{sha256(source).hexdigest()[:8]}"

    def accepts(self, version: str) -> bool:
        """Whether a program found on the machine may stand in: the same major and minor version."""
        return version.split(".")[:2] == self.version.split(".")[:2]

    def version_of(self, program: Path) -> str | None:
        """Ask a program for its version."""
        try:
            result = subprocess.run(
                [str(program), *self.version_arguments], capture_output=True, text=True, timeout=20, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r"(\d+\.\d+\.\d+)", result.stdout + result.stderr)
        return found.group(1) if found else None


def kubernetes(name: str, *version_arguments: str, module: GoModule = GO_MODULE) -> Component:
    """Return a program of Kubernetes itself."""
    package, arguments = f"k8s.io/kubernetes/cmd/{name}", version_arguments or ("--version",)
    return Component(name, module.kubernetes, package, arguments, official=True, module=module)


COMPONENTS = {
    component.name: component
    for component in (
        kubernetes("kube-apiserver"),
        kubernetes("kube-controller-manager"),
        kubernetes("kube-scheduler"),
        kubernetes("kubectl", "version", "--client"),
        kubernetes("kubelet"),
        kubernetes("kube-proxy"),
        Component("etcd", "3.6.8", "go.etcd.io/etcd/server/v3"),
        Component("kwok", "0.8.0", "sigs.k8s.io/kwok/cmd/kwok"),
        Component("coredns", "1.14.2", "./coredns"),
        Component("slipway-chips", "1.0.0", "./chips"),
    )
}

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
SIMULATED = ("kwok",)
REAL = ("kubelet", "kube-proxy", "coredns", "slipway-chips")


def architecture() -> str:
    """Return the machine's architecture in Go's words."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
