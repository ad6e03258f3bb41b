"""The hosts of a job on this machine: who they are, what they are told, and how they find each other."""

from pathlib import Path
from typing import Any

import pytest

from tests.local_engine.engine import Engine, User

pytestmark = pytest.mark.thorough

MEETING = """
echo "I am $SLIPWAY_RANK of $SLIPWAY_WORLD_SIZE at $(hostname), coordinator ${SLIPWAY_COORDINATOR_ADDRESS}"
echo "peers $TPU_WORKER_HOSTNAMES"
mkdir -p /tmp/www && echo "answer of $SLIPWAY_RANK" > /tmp/www/index.html && httpd -p 8080 -h /tmp/www
for peer in $(echo $TPU_WORKER_HOSTNAMES | tr ',' ' ') ${SLIPWAY_COORDINATOR_ADDRESS%:*}; do
  until wget -q -O /tmp/got http://$peer:8080/ 2> /dev/null; do sleep 0.1; done
  echo "$peer: $(cat /tmp/got)"
done
touch /shared/done-$SLIPWAY_RANK
until [ $(ls /shared | wc -l) -gt $SLIPWAY_WORLD_SIZE ]; do sleep 0.1; done
"""
"""Ends when all hosts have met and the test has seen them run."""


# K-02, T-18: on the job's own network every host finds every other, by the names it has on a cluster.
def test_hosts_find_each_other_and_the_coordinator(user: User, engine: Engine, shared: dict[str, Any]) -> None:
    folder = Path(shared["volumes"][0]["hostPath"]["path"])
    user.submit(MEETING, hosts=2, slices=2, **shared)
    hosts = engine.running("train", 4)
    (folder / "seen").touch()
    assert [one.name for one in hosts] == ["train-0-0-0", "train-0-0-1", "train-0-1-0", "train-0-1-1"]
    assert [one.attrs["Config"]["Hostname"] for one in hosts] == ["0-0-0", "0-0-1", "0-1-0", "0-1-1"]
    labels = hosts[3].labels
    told = {key: labels[f"slipway.dev/{key}"] for key in ("job-name", "attempt", "slice", "host", "role")}
    assert told == {"job-name": "train", "attempt": "0", "slice": "1", "host": "1", "role": "worker"}
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 0, 0)
    logs = user.slipway("logs", "train").out.splitlines()
    assert "[1/1] I am 3 of 4 at 0-1-1, coordinator 0-0-0.train.local.svc:8081" in logs
    for rank, (index, host) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        own = [line.removeprefix(f"[{index}/{host}] ") for line in logs if line.startswith(f"[{index}/{host}]")]
        assert own[1:] == [
            f"peers 0-{index}-0.train,0-{index}-1.train",
            f"0-{index}-0.train: answer of {2 * index}",
            f"0-{index}-1.train: answer of {2 * index + 1}",
            "0-0-0.train.local.svc: answer of 0",
        ], rank


ON_ONE_NETWORK = """
if [ $SLIPWAY_RANK = 0 ]; then
  mkdir -p /tmp/www && echo "answer of 0" > /tmp/www/index.html
  httpd -p ${SLIPWAY_COORDINATOR_ADDRESS#*:} -h /tmp/www
fi
until wget -q -O - http://$SLIPWAY_COORDINATOR_ADDRESS/ 2> /dev/null; do sleep 0.1; done
for peer in $(echo $TPU_WORKER_HOSTNAMES | tr ',' ' '); do
  until ping -c 1 -w 9 $peer > /dev/null; do sleep 0.1; done
  echo "$peer is here"
done
touch /shared/done-$SLIPWAY_RANK
until [ $(ls /shared | wc -l) -gt $SLIPWAY_WORLD_SIZE ]; do sleep 0.1; done
"""


# T-18: on the network of the machine itself the hosts find each other by the same names.
def test_hosts_on_the_network_of_the_machine(user: User, engine: Engine, shared: dict[str, Any]) -> None:
    networks = {one.name for one in engine.client.networks.list()}
    user.submit(ON_ONE_NETWORK, "train", "--network", "host", hosts=2, **shared)
    hosts = engine.running("train", 2)
    assert [list(one.attrs["NetworkSettings"]["Networks"]) for one in hosts] == [["host"], ["host"]]
    assert {one.name for one in engine.client.networks.list()} == networks
    (Path(shared["volumes"][0]["hostPath"]["path"]) / "seen").touch()
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 0, 0)
    said = ["answer of 0", "0-0-0.train is here", "0-0-1.train is here"]
    logs = user.slipway("logs", "train").out.splitlines()
    assert logs == [f"[0/{host}] {line}" for host in (0, 1) for line in said]


# N-34: the networks of two jobs have nothing to do with each other, whatever the jobs are named.
def test_a_job_does_not_see_the_hosts_of_another(user: User, engine: Engine) -> None:
    user.submit("mkdir /www; echo reached > /www/index.html; httpd -p 8080 -h /www; sleep 60", "first")
    [there] = engine.running("first")
    there.reload()
    [network] = there.attrs["NetworkSettings"]["Networks"].values()
    script = f"wget -q -T 2 -O - http://{network['IPAddress']}:8080/ || echo alone"
    done = user.slipway("run", "--image", "slipway.local/busybox:1", "--name", "second", "--", "sh", "-c", script)
    assert "Succeeded" in done.err
    said = user.slipway("logs", "second").out.splitlines()
    assert ("alone" in said, "reached" in said) == (True, False)


# T-04, D-07: what a host is told is what it is told on a cluster.
def test_the_environment_is_that_of_a_cluster(user: User) -> None:
    own = [{"name": "OWN", "value": "$(SLIPWAY_RANK) of $(NOBODY)"}]
    user.submit("env; pwd; cat", env=own, workingDir="/tmp")
    assert user.ended()["phase"] == "Succeeded"
    lines = user.slipway("logs", "train").out.splitlines()
    expected = {
        "SLIPWAY_JOB=train", "SLIPWAY_ATTEMPT=0", "SLIPWAY_SLICE=0", "SLIPWAY_HOST=0", "SLIPWAY_RANK=0", "RANK=0",
        "SLIPWAY_WORLD_SIZE=1", "WORLD_SIZE=1", "MASTER_ADDR=0-0-0.train.local.svc", "OWN=0 of $(NOBODY)",
        "HOSTNAME=0-0-0", "/tmp",
    }  # fmt: skip
    assert expected <= set(lines)
