"""A Docker engine in a network namespace of its own: `python -m tests.kind_node.engine FOLDER`, until it is ended.

It makes bridges and firewall rules there, and none on the machine. Machines that are containers themselves often lack
capabilities that a privileged container asks for; runc then gets those that there are.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from slipway.devcluster.programs.packages import find_tool

RUNTIME: Final = Path(__file__).parent / "runc.py"
NETWORK: Final = 'ip link set lo up && echo 1 > /proc/sys/net/ipv4/ip_forward && exec "$@"'
"""Nothing leads out of it."""


def command(folder: Path) -> list[str]:
    """The command line of an engine that listens at FOLDER/engine.sock."""
    dockerd = [
        find_tool("dockerd") or "dockerd", f"--host=unix://{folder / 'engine.sock'}", f"--data-root={folder / 'data'}",
        f"--exec-root={folder / 'exec'}", f"--pidfile={folder / 'pid'}", f"--containerd-namespace=kind-{os.getpid()}",
        f"--containerd-plugins-namespace=kind-plugins-{os.getpid()}", f"--add-runtime=here={RUNTIME}",
        "--default-runtime=here",
    ]  # fmt: skip
    return ["unshare", "--net", "--mount", "sh", "-euc", NETWORK, "sh", *dockerd]


if __name__ == "__main__":
    place = Path(sys.argv[1])
    place.mkdir(parents=True, exist_ok=True)
    sys.exit(subprocess.run(command(place), check=False).returncode)
