"""The wheel works in an environment of its own, without the checkout."""

import email
import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from slipway.version import VERSION
from tests.places import ROOT

SHIPPED = "slipway/_shipped"


def run(*command: str | Path, cwd: Path) -> str:
    """What a command prints, in an environment that names neither the checkout nor this Python."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd)}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout, built without the network."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    [built] = folder.glob("*.whl")
    return built


@dataclass(frozen=True)
class Environment:
    """A virtual environment with the wheel, and a folder to work in."""

    folder: Path
    work: Path

    def python(self, code: str) -> str:
        return run(self.folder / "bin/python", "-c", code, cwd=self.work).strip()

    def slipway(self, *arguments: str) -> str:
        return run(self.folder / "bin/slipway", *arguments, cwd=self.work)


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The wheel in an environment that has the dependencies from this one, but not the editable checkout."""
    folder = tmp_path_factory.mktemp("elsewhere")
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv/bin/python"
    install = ("install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-index", str(wheel))
    run(sys.executable, "-m", "pip", "--python", python, *install, cwd=folder)
    [site] = (folder / "venv/lib").glob("python*/site-packages")
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    # Python does not read the .pth files of folders that a .pth file names, and so does not find the checkout.
    (site / "dependencies.pth").write_text("\n".join(packages))
    return Environment(folder / "venv", folder)


def files_below(folder: Path) -> Iterator[str]:
    """The files that belong to a folder of the checkout, by their path below it."""
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            yield str(path.relative_to(folder))


def test_the_distribution_says_who_it_is(wheel: Path) -> None:
    assert wheel.name == f"slipway_tpu-{VERSION}-py3-none-any.whl"
    info = f"slipway_tpu-{VERSION}.dist-info"
    with ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        licence = archive.read(f"{info}/licenses/LICENSE")
    assert (metadata["Name"], metadata["Version"]) == ("slipway-tpu", VERSION)
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    assert metadata.get_all("Provides-Extra") == ["docker"]
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert b"END OF TERMS AND CONDITIONS" in licence


def test_the_wheel_has_every_file_that_commands_read(wheel: Path) -> None:
    package = {f"slipway/{name}" for name in files_below(ROOT / "operator/slipway")}
    shipped = {f"{SHIPPED}/{part}/{name}" for part in ("crds", "examples") for name in files_below(ROOT / part)}
    with ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == package | shipped
    assert {"slipway/py.typed", "slipway/sdk/host_program.py", "slipway/devcluster/native/stages.yaml"} < names


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--help"], "Run container jobs on TPU slices"),
        (["cluster", "up", "--help"], "COUNT*TYPE"),
        (["demo", "--help"], "lose a node half-way"),
        (["operator", "--help"], "Run the operator"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_commands_work_without_the_checkout(elsewhere: Environment, arguments: list[str], said: str) -> None:
    assert said in elsewhere.slipway(*arguments)


def test_the_version_is_the_same_here_and_there(elsewhere: Environment) -> None:
    expected = f"slipway, version {VERSION}\n"
    assert elsewhere.slipway("--version") == expected
    assert CliRunner().invoke(main, ["--version"]).output == expected


def test_the_library_works_without_the_checkout(elsewhere: Environment) -> None:
    code = "import slipway; print([getattr(slipway, name) is not None for name in slipway.__all__], slipway.__file__)"
    found, _, file = elsewhere.python(code).rpartition(" ")
    assert "True" in found
    assert "False" not in found
    assert Path(file).is_relative_to(elsewhere.folder)


def test_the_demo_finds_its_files_without_the_checkout(elsewhere: Environment) -> None:
    code = (
        "import json; from pathlib import Path; from slipway.demo.files import shipped; "
        "from slipway.demo.run import manifest; "
        "print(json.dumps([str(shipped('crds')), str(shipped('examples')), manifest(Path('/x'))['kind']]))"
    )
    crds, examples, kind = json.loads(elsewhere.python(code))
    assert kind == "SliceJob"
    assert all(Path(found).is_relative_to(elsewhere.folder) for found in (crds, examples))
