"""Writing an image's name into the YAML of a job, and leaving every other character as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from slipway.api.names import KIND
from slipway.local.engine.errors import refuse


def write_image(path: Path, image: str) -> None:
    """Set `spec.image` of the file's only SliceJob."""
    text, target = with_image(path, image), path.resolve()
    fresh = target.with_name(f".{target.name}.slipway")
    try:
        # A full disk must not leave half a manifest.
        fresh.write_bytes(text.encode())
        shutil.copymode(target, fresh)
        fresh.replace(target)
    except OSError as error:
        raise refuse(f"The image {image} cannot be written to {path}: {error}") from error
    finally:
        fresh.unlink(missing_ok=True)


def with_image(path: Path, image: str) -> str:
    """Return the file's text with `spec.image` of its only SliceJob set."""
    try:
        # As bytes, because reading text would change the ends of its lines.
        text = path.read_bytes().decode()
        spec = _spec(path, text)
        changed = _changed(text, spec, image)
        written = _value(_spec(path, changed), "image")
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise refuse(f"The image cannot be written to {path}: {error}") from error
    if not isinstance(written, yaml.ScalarNode) or written.value != image:
        raise refuse(f"The way {path} writes `image` cannot be changed.", "Write it on one line: `image: NAME`.")
    return changed


def _spec(path: Path, text: str) -> yaml.MappingNode:
    jobs = [node for node in yaml.compose_all(text, yaml.SafeLoader) if _is_job(node)]
    if len(jobs) != 1:
        raise refuse(f"{path} holds {len(jobs)} objects of kind {KIND}; exactly one is needed.")
    spec = _value(jobs[0], "spec")
    if not isinstance(spec, yaml.MappingNode) or not spec.value:
        raise refuse(f"The {KIND} in {path} has no spec.")
    return spec


def _is_job(node: yaml.Node) -> bool:
    kind = _value(node, "kind")
    return isinstance(kind, yaml.ScalarNode) and kind.value == KIND


def _value(node: yaml.Node, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else []
    return next((value for name, value in pairs if name.value == key), None)


def _changed(text: str, spec: yaml.MappingNode, image: str) -> str:
    # A name such as 12:30 would be read as a number.
    scalar = image if yaml.safe_load(image) == image else f'"{image}"'
    old = _value(spec, "image")
    if old is not None:
        return text[: old.start_mark.index] + scalar + text[old.end_mark.index :]
    mark = spec.value[0][0].start_mark
    end = "\r\n" if "\r\n" in text else "\n"
    after = ", " if spec.flow_style else end + " " * mark.column
    return f"{text[: mark.index]}image: {scalar}{after}{text[mark.index :]}"
