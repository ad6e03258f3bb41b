"""Images with Python and packages from PyPI, built without a registry and without an engine.

Three layers: Debian with Python (shared by all such images), the packages, the files. The first two are cached by
what they are made of, so that changing a file costs seconds.
"""

from __future__ import annotations

import compileall
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from py_compile import PycInvalidationMode

from slipway.devcluster import paths
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.images import archives
from slipway.devcluster.images.archives import image_cache
from slipway.devcluster.programs import packages
from slipway.devcluster.programs.packages import find_tool
from slipway.devcluster.progress import Silent, StepReporter, step

SUITE = "bookworm"
PYTHON = "3.11"
_SITE = f"usr/local/lib/python{PYTHON}/dist-packages"
_DEBIAN = ("python3-minimal", "python3", "libpython3-stdlib", "ca-certificates", "libgomp1", "libstdc++6")
# glibc versions that Debian bookworm (2.36) satisfies, as wheels name them.
_GLIBC = ("manylinux2014", "manylinux_2_17", "manylinux_2_24", "manylinux_2_27", "manylinux_2_28", "manylinux_2_34")


def build_python_image(
    reference: str,
    requirements: Sequence[str],
    files: Mapping[str, Path],
    *,
    command: Sequence[str] = ("python3",),
    environment: Mapping[str, str] | None = None,
    user: str = "",
    progress: StepReporter | None = None,
) -> Path:
    """Build an image and return its archive: Python 3.11, pinned requirements, and files or folders by their path."""
    progress = progress or Silent()
    unpinned = [each for each in requirements if not re.search(r"(==|@\s|\.whl$)", each)]
    if unpinned:
        raise LocalClusterError(
            f"These requirements name no version: {', '.join(unpinned)}.",
            hint="Write NAME==VERSION, so that images repeat.",
        )
    layers = [debian_layer(progress)]
    variables = {"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})}
    with paths.filling(image_cache()):
        if requirements:
            layers.append(_packages_layer(sorted(requirements), progress))
        if files:
            layers.append(_files_layer(files))
        image = archives.Image(reference, tuple(layers), tuple(command), variables, user)
        path = image_cache() / f"{_archive_stem(reference)}-{image.digest[:12]}.tar"
        if not path.exists():
            with step(progress, f"Writing image {reference}"):
                archives.write(path, [image])
            _forget_older(path, reference)
    return path


def _forget_older(path: Path, reference: str) -> None:
    """Delete earlier archives of the same image. Clusters that use one keep a link to it."""
    name = re.compile(re.escape(_archive_stem(reference)) + r"-[0-9a-f]{12}\.tar")
    for other in path.parent.glob("*.tar"):
        if other != path and name.fullmatch(other.name):
            other.unlink(missing_ok=True)


def _archive_stem(reference: str) -> str:
    return re.sub(r"[^A-Za-z0-9.]+", "-", reference)


def debian_layer(progress: StepReporter) -> archives.Layer:
    """A Debian with Python; made once."""
    path = image_cache() / f"debian-{SUITE}-{_key(*_DEBIAN)}.layer"
    with paths.filling(image_cache()):
        if not path.exists():
            packages.ensure(packages.IMAGES, progress)
            with step(progress, f"Making a Debian {SUITE} with Python (once)"):
                _mmdebstrap(path)
        return archives.Layer.of(path)


def _mmdebstrap(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        made = Path(folder) / "debian.tar"
        without = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("man", "doc", "locale", "info")]
        result = subprocess.run(
            [find_tool("mmdebstrap") or "mmdebstrap", "--variant=minbase", *without,
             f"--include={','.join(_DEBIAN)}", SUITE, str(made)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if result.returncode != 0:
            raise LocalClusterError(f"mmdebstrap failed: {_tail(result.stderr)}", hint="It needs a Debian mirror.")
        made.replace(path)


def _packages_layer(requirements: Sequence[str], progress: StepReporter) -> archives.Layer:
    path = image_cache() / f"packages-{_key(PYTHON, *_bytecode(), *requirements)}.layer"
    if not path.exists():
        with (
            step(progress, f"Installing {len(requirements)} Python packages into an image (once)"),
            tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder,
        ):
            target = Path(folder) / "site"
            _pip(requirements, target)
            scripts = _move_scripts(target, Path(folder) / "bin")
            if _bytecode():
                _compile(target)
            contents: dict[str, Path | bytes] = {_SITE: target, **scripts}
            archives.tar_layer(path, contents, {})
    return archives.Layer.of(path)


def _pip(requirements: Sequence[str], target: Path) -> None:
    """Install wheels for the image's Python, which need not be ours."""
    machine = platform.machine()
    platforms = [argument for name in _GLIBC for argument in ("--platform", f"{name}_{machine}")]
    result = subprocess.run(
        [_python_with_pip(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile",
         "--python-version", PYTHON, "--implementation", "cp", "--only-binary=:all:", *platforms,
         "--target", str(target), *requirements],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode != 0:
        raise LocalClusterError(f"pip cannot install {' '.join(requirements)}: {_tail(result.stderr)}")


def _bytecode() -> tuple[str, ...]:
    """What tells layers with bytecode from those without; only a Python of the image's version can make it."""
    return ("bytecode",) if f"{sys.version_info.major}.{sys.version_info.minor}" == PYTHON else ()


def _compile(target: Path) -> None:
    """Compile the packages: a container would do it anew for each of its processes, as it cannot keep the result."""
    compileall.compile_dir(
        target,
        quiet=2,
        workers=0,
        stripdir=str(target),
        prependdir=f"/{_SITE}",
        # Layers keep no times to compare with.
        invalidation_mode=PycInvalidationMode.UNCHECKED_HASH,
    )


def _python_with_pip() -> str:
    for candidate in (sys.executable, shutil.which("python3"), "/usr/bin/python3"):
        command = [candidate or "", "-m", "pip", "--version"]
        if candidate and subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return candidate
    raise LocalClusterError("No Python with pip was found.", hint="Install the package `python3-pip`.")


def _move_scripts(target: Path, folder: Path) -> dict[str, Path]:
    """Move commands to /usr/local/bin; pip made them for our Python, and their first line says so."""
    if not (target / "bin").is_dir():
        return {}
    (target / "bin").rename(folder)
    for script in folder.iterdir():
        first, _, rest = script.read_bytes().partition(b"\n")
        if first.startswith(b"#!") and b"python" in first:
            script.write_bytes(b"#!/usr/bin/python3\n" + rest)
    return {f"usr/local/bin/{script.name}": script for script in folder.iterdir()}


def _files_layer(files: Mapping[str, Path]) -> archives.Layer:
    digest = sha256()
    for name, source in sorted(files.items()):
        digest.update(name.encode())
        for path in sorted(source.rglob("*")) if source.is_dir() else [source]:
            if path.is_file():
                digest.update(str(path.relative_to(source)).encode() + sha256(path.read_bytes()).digest())
                digest.update(oct(path.stat().st_mode).encode())
    path = image_cache() / f"files-{digest.hexdigest()[:12]}.layer"
    return archives.Layer.of(path) if path.exists() else archives.tar_layer(path, dict(files), {})


def _key(*parts: str) -> str:
    return sha256("\n".join([platform.machine(), *parts]).encode()).hexdigest()[:12]


def _tail(text: str) -> str:
    return " ".join(line.strip() for line in text.strip().splitlines()[-4:])[-600:]
