"""The image of the sandbox: one program that waits for ever, as the pause container of a pod does.

It needs no registry, and so it is there where a job is tried without a network.
"""

from __future__ import annotations

import io
import struct
import tarfile
from typing import TYPE_CHECKING, Final

from slipway.local.containers.containers import EngineRefuses, as_engine_errors, image_id
from slipway.local.conversion.pod_sandbox import IMAGE, PROGRAM

if TYPE_CHECKING:
    from docker import APIClient

_ADDRESS: Final = 0x400000
_MACHINES: Final[dict[str, tuple[int, bytes]]] = {
    # mov eax, SYS_pause; syscall; and again
    "amd64": (62, bytes.fromhex("b822000000 0f05 ebf7")),
    # ppoll(NULL, 0, NULL, NULL), because there is no pause: x0 to x3 are 0, x8 is SYS_ppoll; svc; and again
    "arm64": (
        183,
        struct.pack("<7I", 0xD2800000, 0xD2800001, 0xD2800002, 0xD2800003, 0xD2800928, 0xD4000001, 0x17FFFFFA),
    ),
}
"""The number of each machine in ELF, and its program, by the name that Go has for it."""
_NAMES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


def ensure_sandbox_image(api: APIClient) -> None:
    """Make the image on the engine, unless it is there.

    Raises:
        EngineRefuses: when there is no program for the machine of the engine.
    """
    if image_id(api, IMAGE) is not None:
        return
    with as_engine_errors():
        name = str(api.version()["Arch"])
    machine = _NAMES.get(name, name)
    if machine not in _MACHINES:
        known = " and ".join(_MACHINES)
        raise EngineRefuses(f"hosts of several containers run on {known}, and this engine is one of {machine}", 0)
    repository, _, tag = IMAGE.partition(":")
    with as_engine_errors():
        api.import_image_from_data(_archive(program(machine)), repository=repository, tag=tag)


def program(machine: str) -> bytes:
    """An executable of ELF that waits for ever."""
    number, code = _MACHINES[machine]
    start, size = 64 + 56, 64 + 56 + len(code)
    identity = b"\x7fELF" + bytes((2, 1, 1)) + bytes(9)
    header = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, number, 1, _ADDRESS + start, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, _ADDRESS, _ADDRESS, size, size, 0x1000)
    return header + segment + code


def _archive(executable: bytes) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        entry = tarfile.TarInfo(PROGRAM.strip("/"))
        entry.size, entry.mode = len(executable), 0o755
        archive.addfile(entry, io.BytesIO(executable))
    return content.getvalue()
