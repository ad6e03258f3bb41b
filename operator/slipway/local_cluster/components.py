"""The programs a cluster is made of, and which versions of them are acceptable."""

from __future__ import annotations

import platform
import re
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

KUBERNETES = "1.36.3"
GO_MODULE = Path(__file__).parent / "gomod"


@dataclass(frozen=True)
class Component:
    """One program: how to recognise it and how to build it."""

    name: str
    version: str
    package: str
    version_arguments: tuple[str, ...] = ("--version",)
    official: bool = False

    @property
    def cache_key(self) -> str:
        """Name of the folder in the cache; CoreDNS depends on our choice of plugins as well."""
        if not self.package.startswith("./"):
            return self.version
        source = b"".join(path.read_bytes() for path in sorted((GO_MODULE / self.package).glob("*.go")))
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


def _kubernetes(name: str, *version_arguments: str) -> Component:
    return Component(
        name, KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", version_arguments or ("--version",), official=True
    )


COMPONENTS = {
    component.name: component
    for component in (
        _kubernetes("kube-apiserver"),
        _kubernetes("kube-controller-manager"),
        _kubernetes("kube-scheduler"),
        _kubernetes("kubectl", "version", "--client"),
        _kubernetes("kubelet"),
        _kubernetes("kube-proxy"),
        Component("etcd", "3.6.8", "go.etcd.io/etcd/server/v3"),
        Component("kwok", "0.8.0", "sigs.k8s.io/kwok/cmd/kwok"),
        Component("coredns", "1.14.2", "./coredns"),
    )
}

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
SIMULATED = ("kwok",)
REAL = ("kubelet", "kube-proxy", "coredns")

LINKER_FLAGS = " ".join(
    [
        "-s -w",
        *(
            f"-X {package}.gitVersion=v{KUBERNETES} -X {package}.gitMajor=1 -X {package}.gitMinor=36"
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
        ),
    ]
)


def architecture() -> str:
    """Return the machine's architecture in Go's words."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)
