"""Commands whose jobs are not in a cluster."""

import click
import pytest
from click.testing import CliRunner

from slipway.cli.common import retargeted, targeted
from slipway.cli.list import list_
from slipway.cli.submit import submit
from slipway.client.logs import host_log
from slipway.client.target import Target
from tests.cli.contract import Contract
from tests.client.memory import MemoryTarget


class TestMemory(Contract):
    @pytest.fixture
    def target(self) -> Target:
        return MemoryTarget()


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_log, "ROUND_SECONDS", 0.05)


@click.command()
@click.option("--label", "labels", multiple=True)
@click.option("--big", is_flag=True)
@click.option("--size", type=int, default=3)
@click.argument("name")
@targeted
def shown(target: Target, **given: object) -> None:
    click.echo(f"{target.resolved_namespace} {sorted(given.items())}")


def test_parameters_that_are_dropped_have_their_defaults() -> None:
    moved = retargeted(shown, lambda: MemoryTarget("there"), ("labels", "big", "size"))
    done = CliRunner().invoke(moved, ["train"])
    assert done.output == "there [('big', False), ('labels', ()), ('name', 'train'), ('size', 3)]\n"
    assert [one.name for one in moved.params] == ["name"]
    assert CliRunner().invoke(moved, ["train", "--big"]).exit_code == 2


def test_a_job_is_submitted_without_the_options_that_are_dropped() -> None:
    target = MemoryTarget()
    moved = retargeted(submit, lambda: target, ("type_", "spot", "service_account", "copy_env"))
    done = CliRunner().invoke(moved, ["--image", "a:1", "--name", "train", "--", "true"])
    assert done.output == "slicejob train created\n"
    assert target.memory.jobs["train"]["spec"] == {"image": "a:1", "command": ["true"]}


def test_the_command_itself_stays_as_it_is() -> None:
    before = [one.name for one in shown.params]
    retargeted(shown, MemoryTarget)
    assert [one.name for one in shown.params] == before
    assert CliRunner().invoke(shown, ["train", "-n", "x"]).output.startswith("x ")


@pytest.mark.parametrize("command", [list_, submit])
def test_a_cluster_cannot_be_named_elsewhere(command: click.Command) -> None:
    moved = retargeted(command, MemoryTarget)
    assert "No such option '--context'" in CliRunner().invoke(moved, ["--context", "x"]).output
    assert "--kubeconfig" not in CliRunner().invoke(moved, ["--help"]).output
