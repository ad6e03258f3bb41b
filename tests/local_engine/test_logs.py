"""What programs write is kept to the last line, however much it is."""

import gc
import subprocess
import warnings
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from slipway.local.containers.containers import Containers
from slipway.local.engine.address import Address, connect
from tests.local_engine.engine import Engine, User
from tests.waiting import START_SECONDS, until

HOSTS: Final = 8
LINES: Final = 4000
"""Of each host, a thousand a second."""
LONG: Final = 100_000
"""Characters of a line; Docker cuts them after 16,384 bytes."""
FLOOD: Final = f"""
for second in 0 1 2 3; do seq $((second * 1000 + 1)) $((second * 1000 + 1000)); sleep 1; done
head -c {LONG} /dev/zero | tr '\\0' x; echo
echo 'no newline' | tr -d '\\n'
"""


# N-18: every line of every host, while it is written, while there are containers, and from what is kept of them.
def test_every_line_is_there(user: User) -> None:
    user.submit(FLOOD, hosts=HOSTS)
    followed = user.command("logs", "train", "-f").out
    assert user.ended()["phase"] == "Succeeded"
    kept = user.command("logs", "train").out
    numbers = [str(number) for number in range(1, LINES + 1)]
    for text in (followed, kept):
        lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            host, _, rest = line.partition(" ")
            lines.setdefault(host, []).append(rest)
        assert sorted(lines) == [f"[0/{host}]" for host in range(HOSTS)]
        for host, found in lines.items():
            assert found[:LINES] == numbers, host
            assert [len(line) for line in found[LINES:-1]] == [LONG], host
            assert found[-1] == "no newline"


BOTH: Final = """
for number in 1 2 3; do echo "out $number"; echo "error $number" >&2; done
until [ -e /shared/go ]; do sleep 0.1; done
"""


# T-31: one of the streams of a program, while there are containers and from what is kept of them.
def test_one_stream_alone(user: User, shared: dict[str, Any]) -> None:
    wanted = {
        ("stdout",): "out 1\nout 2\nout 3\n",
        ("stderr",): "error 1\nerror 2\nerror 3\n",
        ("stderr", "--tail", "2"): "error 2\nerror 3\n",
        ("stdout", "--regex", "2"): "out 2\n",
    }

    def read() -> dict[tuple[str, ...], str]:
        return {choice: user.slipway("logs", "train", "--stream", *choice).out for choice in wanted}

    user.submit(BOTH, **shared)
    user.until("Running")
    until("the last lines", lambda: {"out 3", "error 3"} <= set(user.slipway("logs", "train").out.splitlines()))
    assert read() == wanted
    follower = user.popen("logs", "train", "-f", "--stream", "stderr", stdout=subprocess.PIPE)
    (Path(shared["volumes"][0]["hostPath"]["path"]) / "go").touch()
    out, _ = follower.communicate(timeout=START_SECONDS)
    assert out.decode() == wanted["stderr",]
    user.ended()
    assert read() == wanted


# A program that follows many logs would run out of descriptors before garbage collection comes by.
def test_a_log_that_is_left_before_its_end_leaves_no_socket_open(user: User, engine: Engine) -> None:
    user.submit("while :; do echo more; sleep 0.1; done")
    [one] = engine.running("train")
    user.until("Running")
    # Nothing of another test is collected meanwhile.
    gc.collect()
    api = connect(Address(user.host))
    log = Containers(api, "").log(str(one.id), follow=True)
    with closing(api), closing(log):
        assert b"more" in next(iter(log))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        del log
        gc.collect()
    assert [str(one.message) for one in found] == []


# T-42: the error for a host that a job does not have names the job and its hosts.
def test_logs_of_a_host_that_there_is_not(user: User) -> None:
    user.submit("true", hosts=2)
    assert "host 2: SliceJob train has hosts 0 to 1" in user.slipway("logs", "train", "--host", "2", code=2).err
    assert "slice 1: SliceJob train has slice 0 only" in user.slipway("logs", "train", "--slice", "1", code=2).err
    user.ended()


# A program that has no room left is a program that fails, with its own words.
def test_a_program_without_room_fails_with_its_words(user: User) -> None:
    volume: dict[str, Any] = {"name": "small", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}
    mount = {"name": "small", "mountPath": "/small"}
    script = "dd if=/dev/zero of=/small/file bs=1M count=9 || exit 28"
    user.submit(script, volumes=[volume], volumeMounts=[mount], retries={"maxFailures": 1})
    status = user.ended()
    root = status["attempts"][0]["root"]
    assert (status["phase"], root["exitCode"]) == ("Failed", 28)
    assert "No space left on device" in root["log"]
