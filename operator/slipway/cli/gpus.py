"""`--gpus`: how many GPUs each host gets or, on one machine, which."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import click

from slipway.local.conversion.devices import WHICHEVER, GpuChoice, Inventory

_ALL: Final = "all"
_KEYS: Final = ("capabilities", "count", "device")
_CAPABILITIES: Final = ("compat32", "compute", "display", "gpu", "graphics", "ngx", "utility", "video")
"""Those of NVIDIA's driver."""
_COUNT: Final = re.compile(rf"{_ALL}|\d+")
_ID: Final = re.compile(r"\d+|GPU-[0-9a-fA-F-]+")


@dataclass(frozen=True, slots=True)
class ChosenGpus:
    """More than a count: what only an engine on this machine can give."""

    text: str
    """As it was written."""
    count: str
    """Of each host, or `all` of the machine for all hosts together; nothing where the ids tell it."""
    choice: GpuChoice
    taken: bool = False
    """Whether the engine is told of the choice, so that only the count is left to say."""

    def for_each(self, inventory: Inventory, hosts: int, vendor: str | None) -> int:
        """GPUs of each host, of that vendor where one is named.

        Raises:
            click.UsageError: when the machine has no such GPU, or the hosts cannot share them evenly.
        """
        if unknown := inventory.unknown(self.choice):
            there = ", ".join(f"{device.number} ({device.uuid or device.path})" for device in inventory.gpus)
            own = there or "it has none"
            raise click.UsageError(f"--gpus {self.text}: {unknown[0]} is none of this machine's GPUs: {own}.")
        if self.count and self.count != _ALL:
            return int(self.count)
        chosen = inventory.chosen(self.choice).gpus
        gpus = sum(vendor in (None, "auto", device.kind) for device in chosen)
        if not gpus:
            of = f" of vendor {vendor}" if chosen else ""
            raise click.UsageError(f"--gpus {self.text}: this machine has no GPUs{of}.")
        if gpus % hosts:
            raise click.UsageError(f"--gpus {self.text}: {hosts} hosts cannot share {gpus} GPUs evenly.")
        return gpus // hosts


class Gpus(click.ParamType["int | ChosenGpus"]):
    """What `docker run --gpus` takes. A list of numbers is one of GPUs, where Docker would take it for counts."""

    name = "COUNT|all|ID,…"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | ChosenGpus:
        """Read it (E1-11, E1-12)."""
        if isinstance(value, int | ChosenGpus):
            return value
        text, fields, key = str(value).replace('"', ""), dict[str, list[str]](), ""
        if text.isdecimal():
            return int(text)
        for word in text.split(","):
            before, _, after = word.rpartition("=")
            key = before or key
            fields.setdefault(key, []).append(after)
        bare = fields.pop("", [])
        if unknown := sorted(fields.keys() - set(_KEYS)):
            self.fail(f"{text!r}: {unknown[0]!r} is not known: {', '.join(_KEYS)} are.")
        counts, ids = fields.get("count", []), fields.get("device", [])
        # As with Docker, a lone number is a count, also before other keys.
        if len(bare) == 1 and _COUNT.fullmatch(bare[0]):
            counts = [*counts, *bare]
        else:
            ids = [*bare, *ids]
        if len(counts) + bool(ids) != 1 or not all(map(_ID.fullmatch, ids)) or not all(map(_COUNT.fullmatch, counts)):
            self.fail(f"{text!r} is neither a count such as 2, nor all, nor GPUs by number or UUID such as 0,1.")
        capabilities = tuple(fields.get("capabilities", ()))
        if unknown := sorted(set(capabilities) - set(_CAPABILITIES)):
            self.fail(f"{text!r}: capability {unknown[0]!r} is not known: {', '.join(_CAPABILITIES)} are.")
        choice = GpuChoice(tuple(dict.fromkeys(ids)), capabilities)
        return ChosenGpus(text, "".join(counts), choice)


def choice_of(given: dict[str, Any], files: Sequence[str], *, without_devices: bool) -> GpuChoice:
    """Takes the choice out of the options of a command for this machine, and leaves the count for each host there."""
    gpus = given.get("gpus")
    if not isinstance(gpus, ChosenGpus):
        return WHICHEVER
    hosts = (given.get("hosts") or 1) * (given.get("slices") or 1)
    # With --without-devices the containers get no GPUs, so the machine need not have any.
    if without_devices:
        given["gpus"] = 0
    elif files:
        # How many hosts share them the manifests say.
        given["gpus"] = replace(gpus, taken=True)
    else:
        given["gpus"] = gpus.for_each(Inventory.read(), hosts, given.get("gpu_vendor"))
    return gpus.choice


def give(spec: Any, gpus: int | ChosenGpus) -> None:
    """Gives each host of a job of this machine these GPUs, instead of those that its manifest asks for.

    Raises:
        click.UsageError: when the job is for TPU chips, or the machine has no such GPUs.
    """
    accelerator = spec.get("accelerator") or {} if isinstance(spec, dict) else None
    if not isinstance(accelerator, dict) or not isinstance(accelerator.get("gpu") or {}, dict):
        # What is wrong with it the check of the manifest says.
        return
    text = gpus.text if isinstance(gpus, ChosenGpus) else str(gpus)
    for field in ("type", "generation"):
        if accelerator.get(field) is not None:
            asked = f"spec.accelerator.{field} {accelerator[field]!r}"
            raise click.UsageError(
                f"--gpus {text}: the manifest has {asked}, and a host has TPU chips or GPUs: leave one."
            )
    gpu = accelerator.get("gpu") or {}
    vendor = gpu.get("vendor")
    count = gpus if isinstance(gpus, int) else gpus.for_each(Inventory.read(), _hosts_of(spec), vendor)
    spec["accelerator"] = accelerator | {"gpu": gpu | {"count": count}}


def _hosts_of(spec: dict[str, Any]) -> int:
    """Hosts of the most slices, as far as a manifest that is yet to be checked tells."""
    acceptable = spec.get("acceptableSlices")
    slices = [spec.get("slices"), *(acceptable if isinstance(acceptable, list) else ())]
    return max(map(_count, slices)) * _count(spec.get("hosts"))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 1
