"""Writing container images as OCI archives, without a registry and without an engine."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from pathlib import Path

from slipway.devcluster import paths
from slipway.devcluster.programs.components import architecture

_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"


@dataclass(frozen=True)
class Layer:
    """An uncompressed tar on disk, and its digest."""

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> Layer:
        """Digest a tar, remembering the digest beside it: layers are large and never change."""
        note = path.with_suffix(".sha256")
        if note.exists() and note.stat().st_mtime_ns >= path.stat().st_mtime_ns:
            return cls(path, note.read_text())
        with path.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
        note.write_text(digest)
        return cls(path, digest)


@dataclass(frozen=True)
class Image:
    """An image to be: its name, its layers from the bottom up, and how its containers start."""

    reference: str
    layers: tuple[Layer, ...]
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str = ""
    """User and group of its containers; root if empty."""

    def config(self) -> bytes:
        """Return the image's configuration."""
        path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        variables = {"PATH": path, **self.environment}
        return _json(
            {
                "architecture": architecture(),
                "os": "linux",
                "config": {
                    "Env": [f"{k}={v}" for k, v in variables.items()],
                    "Cmd": list(self.command),
                    "WorkingDir": "/",
                    **({"User": self.user} if self.user else {}),
                },
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in self.layers]},
            }
        )

    def manifest(self) -> bytes:
        """Return the image's manifest."""
        config = self.config()
        layers = [_descriptor(_LAYER, layer.digest, layer.path.stat().st_size) for layer in self.layers]
        return _json(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _descriptor(_CONFIG, sha256(config).hexdigest(), len(config)),
                "layers": layers,
            }
        )

    @property
    def digest(self) -> str:
        """The digest that names this very content."""
        return sha256(self.manifest()).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _descriptor(kind: str, digest: str, size: int) -> dict[str, object]:
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": size}


def write(path: Path, images: Iterable[Image]) -> None:
    """Write one archive with several images; layers that they share are stored once."""
    blobs: dict[str, bytes | Path] = {}
    index = []
    for image in images:
        config, manifest = image.config(), image.manifest()
        blobs |= {sha256(data).hexdigest(): data for data in (config, manifest)}
        blobs |= {layer.digest: layer.path for layer in image.layers}
        name = {"io.containerd.image.name": image.reference, "org.opencontainers.image.ref.name": image.reference}
        index.append({**_descriptor(_MANIFEST, image.digest, len(manifest)), "annotations": name})
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    with tarfile.open(temporary, "w", format=tarfile.GNU_FORMAT) as archive:
        _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add(archive, "index.json", _json({"schemaVersion": 2, "manifests": index}))
        for digest, content in blobs.items():
            if isinstance(content, Path):
                archive.add(content, f"blobs/sha256/{digest}", filter=_anonymous)
            else:
                _add(archive, f"blobs/sha256/{digest}", content)
    temporary.replace(path)


def _add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Forget who owns a file and when it was written, so that equal content gives equal layers."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def references(path: Path) -> dict[str, str]:
    """Return the images in an archive, reference -> digest of its manifest; nothing for formats other than OCI."""
    try:
        with tarfile.open(path) as archive:
            member = archive.extractfile("index.json")
            manifests = json.load(member)["manifests"] if member else []
    except (tarfile.TarError, EOFError, KeyError):
        # containerd names the fault when it imports the archive, or knows a compression that Python does not.
        return {}
    named = [(each.get("annotations", {}).get("io.containerd.image.name"), each["digest"]) for each in manifests]
    return {name: digest for name, digest in named if name}


def tar_layer(
    path: Path, files: Mapping[str, Path | bytes], links: Mapping[str, str], folders: Iterable[str] = ()
) -> Layer:
    """Write a layer of files (or whole folders), symbolic links and empty folders, and digest it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    with tarfile.open(temporary, "w", format=tarfile.GNU_FORMAT) as archive:
        for folder in folders:
            entry = tarfile.TarInfo(folder.strip("/"))
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder.strip("/") == "tmp" else 0o755
            archive.addfile(entry)
        for name, source in sorted(files.items()):
            if isinstance(source, bytes):
                _add(archive, name.strip("/"), source)
            else:
                archive.add(source, name.strip("/"), filter=_anonymous)
        for name, target in sorted(links.items()):
            entry = tarfile.TarInfo(name.strip("/"))
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            archive.addfile(entry)
    temporary.replace(path)
    return Layer.of(path)


def image_cache() -> Path:
    """Return where layers and archives are kept."""
    return paths.cache_dir() / "images"
