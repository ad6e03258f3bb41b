"""The Go programs that Slipway is measured beside, built once into the cache."""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from slipway.devcluster import paths
from slipway.devcluster.programs.gobuild import go_program

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Program:
    """A main package and the Go module that it is built in."""

    name: str
    module: Path
    package: str = "."

    @property
    def path(self) -> Path:
        """Where the cache keeps it; another version, or other sources, are kept elsewhere."""
        sources = b"".join(path.read_bytes() for path in [*sorted(self.module.glob("*.go")), self.module / "go.sum"])
        return paths.cache_dir() / "bench" / f"{self.name}-{sha256(sources).hexdigest()[:12]}"

    def ensure(self) -> Path:
        """Build it unless that was done before."""
        if not self.path.exists():
            print(f"Building {self.name} (once)", flush=True)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(prefix=".new-", dir=self.path.parent) as folder:
                built = Path(folder) / self.name
                self._go("build", "-buildvcs=false", "-ldflags", "-s -w", "-o", str(built), self.package)
                built.replace(self.path)
        return self.path

    def sources(self) -> Path:
        """The folder of the main package: operators keep what has to be installed beside it."""
        return Path(self._go("list", "-f", "{{.Dir}}", self.package).strip())

    def _go(self, *arguments: str) -> str:
        go = go_program()
        if go is None:
            raise SystemExit("The benchmark needs Go 1.26 or newer on PATH.")
        # Settings of the user's own Go work must not reach this build.
        own = {"CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GO111MODULE": "on"}
        done = subprocess.run(
            [go, *arguments], cwd=self.module, env={**os.environ, **own}, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise SystemExit(f"{self.name} could not be built:\n{done.stderr[-2000:]}")
        return done.stdout


CEILING = Program("ceiling", HERE / "ceiling")
JOBSET = Program("jobset", HERE / "peers/jobset", "sigs.k8s.io/jobset")
KUBERAY = Program("kuberay", HERE / "peers/kuberay", "github.com/ray-project/kuberay/ray-operator")
