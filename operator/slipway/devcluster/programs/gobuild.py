"""Building components with Go, from the module that ships inside this package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.programs.components import Component, GoModule
from slipway.devcluster.progress import StepReporter, step


def go_program() -> str | None:
    """Return the path of `go`."""
    return shutil.which("go") or shutil.which("go", path="/usr/local/go/bin:/usr/lib/go/bin")


def build(components: Sequence[Component], folder: Path, progress: StepReporter) -> None:
    """Build all components of a module in one go into a folder, so that they share the compile of what they share."""
    go = go_program()
    names = ", ".join(component.name for component in components)
    if go is None:
        raise LocalClusterError(
            f"{names} cannot be found, downloaded or built: `go` is not on PATH.",
            hint="Install Go 1.26 or newer, or put Kubernetes 1.36 and etcd binaries into $KUBEBUILDER_ASSETS.",
        )
    for module in dict.fromkeys(component.module for component in components):
        _build_module(
            go, module, [component for component in components if component.module == module], folder, progress
        )


def _build_module(
    go: str, module: GoModule, components: Sequence[Component], folder: Path, progress: StepReporter
) -> None:
    packages = [component.package for component in components]
    name = f"Building {', '.join(component.name for component in components)} (once)"
    with step(progress, name):
        progress.update(name, "reading the module")
        total = _package_count(go, module, packages)
        _compile(go, module, packages, folder, total, progress, name)
        for component in components:
            _put_in_place(folder, component)


def _environment() -> dict[str, str]:
    # Settings of the user's own Go work must not reach this build.
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GO111MODULE": "on"}


def _package_count(go: str, module: GoModule, packages: Sequence[str]) -> int:
    result = subprocess.run(
        [go, "list", "-deps", *packages],
        cwd=module.folder,
        env=_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise _build_error(result.stderr.splitlines())
    return len(result.stdout.splitlines())


def _compile(
    go: str, module: GoModule, packages: Sequence[str], folder: Path, total: int, progress: StepReporter, name: str
) -> None:
    # Nobody debugs these; leaving DWARF out of the compile saves a ninth of it.
    flags = ["-v", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", module.linker_flags]
    command = [go, "build", *flags, "-o", f"{folder}/", *packages]
    done, tail = 0, list[str]()
    with subprocess.Popen(
        command, cwd=module.folder, env=_environment(), stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            line = line.strip()
            tail = [*tail[-30:], line]
            if line.startswith("go: downloading"):
                progress.update(name, line.removeprefix("go: "))
            elif re.fullmatch(r"[\w.\-/~]+", line):
                done += 1
                progress.update(name, f"{done} of at most {total} packages")
    if process.returncode != 0:
        raise _build_error(tail)


def _build_error(lines: Sequence[str]) -> LocalClusterError:
    text = "\n".join(f"  {line[:300]}" for line in lines[-12:])
    return LocalClusterError(
        f"`go` could not build the cluster's components:\n{text}",
        hint="Building needs Go 1.26 or newer, the Go module proxy and about 6 GB of disk.",
    )


def _put_in_place(folder: Path, component: Component) -> None:
    """Rename what Go named after the package's folder."""
    last = [part for part in component.package.split("/") if not re.fullmatch(r"v\d+", part)][-1]
    built = folder / last
    if not built.exists():
        raise LocalClusterError(f"`go build` wrote no {component.name} although it reported success.")
    if last != component.name:
        built.rename(folder / component.name)
