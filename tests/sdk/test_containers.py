"""Containers on real nodes, by Docker's words."""

import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slipway import (
    CPU,
    TPU,
    Client,
    DockerConfig,
    InvalidJob,
    JobFailed,
    run_docker_async,
    run_docker_multislice,
    run_docker_on_pod,
)
from slipway.devcluster import NativeCluster
from tests.kubectl import Kubectl
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.caller import client_of
from tests.waiting import START_SECONDS

SENTINEL = "a value that nobody logs"
SPOT = TPU("v5p-16", slices=2, spot=True)


def shell(script: str, **fields: object) -> DockerConfig:
    return DockerConfig(IMAGE, ["sh", "-c", script], network="bridge", **fields)  # type: ignore[arg-type]


def test_every_host_of_every_slice_answers_in_order(
    real_jobs: Jobs, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    # E1-34, E1-35, E1-38, E1-39, E1-43, E1-32: what is no UTF-8 does no harm
    script = "echo $EXECUTOR_CALL_SLICE $EXECUTOR_CALL_INDEX $MEGASCALE_NUM_SLICES '$HOME' $GREETING; printf '\\377'"
    config = shell(script, environment={"GREETING": "a $(TPU_NAME)", "KEY": SENTINEL})
    outputs = run_docker_multislice(config, SPOT, client=client)
    assert outputs == [f"{place} 2 $HOME a $(TPU_NAME)\n�" for place in ("0 0", "0 1", "1 0", "1 1")]
    real_jobs.until_true("removed", lambda: not real_jobs.kubectl.get("sj")["items"])  # E1-14
    told = caplog.text + real_jobs.operator.log.read_text() + real_jobs.kubectl("get", "events", "-o", "yaml").stdout
    assert SENTINEL not in told  # E1-20


def test_one_host_one_answer_and_nothing_without_capture(
    real_jobs: Jobs, client: Client
) -> None:  # E1-24, E1-25, E1-29
    assert run_docker_on_pod(shell("echo one"), CPU(), client=client) == "one\n"
    config = shell("echo two", remove=False)
    assert run_docker_on_pod(config, CPU(hosts=2), client=client, capture_output=False) == [None, None]
    [kept] = real_jobs.kubectl.get("sj")["items"]
    assert kept["status"]["phase"] == "Succeeded"


def test_a_failure_names_the_host_and_its_last_words(client: Client) -> None:  # E1-26, E1-27, E1-28, E1-41
    script = "trap exit TERM; [ $EXECUTOR_CALL_INDEX = 1 ] || { sleep 60 & wait; }; echo broken >&2; exit 3"
    with pytest.raises(JobFailed) as caught:
        run_docker_on_pod(shell(script), CPU(hosts=2), client=client, capture_output=False, retries={"maxFailures": 2})
    error = caught.value
    assert error.host is not None
    assert (error.host.slice, error.host.host, error.host.index, error.exit_code) == (0, 1, 1, 3)
    assert "broken" in error.log
    assert "maxFailures" in str(error)
    assert error.info.state == "failed"
    assert error.outputs == []


def test_what_the_hosts_of_a_failed_job_wrote_is_not_lost(real_jobs: Jobs, client: Client) -> None:  # E1-42
    # Host 1 fails once the API server has seen host 0 succeed.
    waits = "until [ -e /tmp/go ]; do sleep 0.1; done; exit 3"
    script = f"echo $EXECUTOR_CALL_INDEX; [ $EXECUTOR_CALL_INDEX = 0 ] && exit 0; {waits}"
    with ThreadPoolExecutor(1) as background:
        call = background.submit(
            run_docker_multislice, shell(script), CPU(hosts=2), name="half", client=client, retries={"maxFailures": 1}
        )

        def is_at(pod: str, phase: str) -> bool:
            status = ("get", f"pod/{pod}", "-o", "jsonpath={.status.phase}")
            return real_jobs.kubectl(*status, check=False).stdout == phase

        real_jobs.until_true("host 0", lambda: is_at("half-0-0-0", "Succeeded"))
        go = ("exec", "half-0-0-1", "--", "touch", "/tmp/go")

        def told() -> bool:
            # The container may have terminated before the answer was sent.
            return real_jobs.kubectl(*go, check=False).returncode == 0 or is_at("half-0-0-1", "Failed")

        real_jobs.until_true("host 1", told)
        with pytest.raises(JobFailed) as caught:
            call.result(timeout=START_SECONDS)
    assert caught.value.outputs == ["0\n", "1\n"]


ROTATING = """
pad=$(printf '%01000d' 0)
for part in 0 1; do
  line=0
  while [ $line -lt 11000 ]; do echo $part $line $pad; line=$((line + 1)); done
  sleep 14
done
echo end
"""
"""Each part is more than the kubelet keeps in one file (10 MiB), and it looks at the files every 10 s."""


@pytest.mark.thorough
def test_output_comes_whole_although_the_kubelet_rotates_it_away(real_jobs: Jobs, client: Client) -> None:
    output = run_docker_on_pod(shell(ROTATING, remove=False), CPU(), name="long", client=client)
    assert isinstance(output, str)
    wanted = [f"{part} {line}" for part in (0, 1) for line in range(11000)]
    assert [line.rsplit(" ", 1)[0] for line in output.splitlines()] == [*wanted, "end"]
    left = real_jobs.kubectl("logs", "long-0-0-0").stdout.splitlines()
    assert len(left) < len(wanted)  # Otherwise nothing was rotated, and reading it once would have done.


def test_a_refusal_is_the_servers_own_sentence(
    real_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> None:  # E1-36
    client = client_of(namespace_of(real_nodes), tmp_path)
    with pytest.raises(InvalidJob, match="environment name TPU_WORKER_ID is reserved"):
        run_docker_on_pod(shell("true", environment={"TPU_WORKER_ID": "7"}), CPU(), client=client)


def test_several_at_once_and_none_raises(client: Client) -> None:  # E1-51, E1-52
    started = [run_docker_async(shell(f"echo {code}; exit {code}"), client=client) for code in (0, 5, 7)]
    ended = [one.result(timeout=START_SECONDS) for one in started]
    assert [(one.exit_code, one.stdout) for one in ended] == [(0, "0\n"), (5, "5\n"), (7, "7\n")]


PROGRAM = """
import sys
from pathlib import Path
from slipway import CPU, Client, DockerConfig, run_docker_on_pod
config = DockerConfig("{image}", ["sleep", "600"], network="bridge")
client = Client(kubeconfig=Path("{kubeconfig}"))
run_docker_on_pod(config, CPU(), name="long", client=client, on_interrupt="{how}")
"""


@pytest.mark.parametrize(("how", "said", "phase"), [
    ("detach", "goes on by itself", "Running"),
    ("cancel", "was cancelled", "Cancelled"),
])  # fmt: skip
@pytest.mark.row("E1-24", "B-68")
def test_an_interrupt_does_what_was_asked_and_says_so(
    real_jobs: Jobs, client: Client, how: str, said: str, phase: str
) -> None:
    text = PROGRAM.format(image=IMAGE, kubeconfig=client.kubeconfig, how=how)
    process = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True)
    real_jobs.until_true("the job", lambda: real_jobs.kubectl.get("sj")["items"])
    real_jobs.until("Running", "long")
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=START_SECONDS)
    assert said in error
    real_jobs.until(phase, "long")
