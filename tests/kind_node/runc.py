#!/usr/bin/env python3
"""runc, without the capabilities that this machine does not have."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

NAMES = """
CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE NET_BIND_SERVICE
NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN
SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE
MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE
"""
"""The capabilities in the kernel's order."""


def have() -> set[str]:
    """The capabilities that a process here can have."""
    [line] = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("CapBnd")]
    bits = int(line.split()[1], 16)
    return {f"CAP_{name}" for number, name in enumerate(NAMES.split()) if bits >> number & 1}


def lower(path: Path, *, whole: bool) -> None:
    """Take capabilities out of the file of a container, or of a single process."""
    spec: Any = json.loads(path.read_text())
    process = spec["process"] if whole else spec
    mine, asked = have(), process.get("capabilities", {})
    process["capabilities"] = {kind: [one for one in names if one in mine] for kind, names in asked.items()}
    path.write_text(json.dumps(spec))


def main(arguments: list[str]) -> None:
    """Hand the arguments on to runc."""
    if "--process" in arguments:
        lower(Path(arguments[arguments.index("--process") + 1]), whole=False)
    elif {"create", "run"} & set(arguments):
        bundle = arguments[arguments.index("--bundle") + 1] if "--bundle" in arguments else "."
        lower(Path(bundle) / "config.json", whole=True)
    runc = shutil.which("runc", path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin") or "runc"
    os.execv(runc, ["runc", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
