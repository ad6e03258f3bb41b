"""What every command about jobs does, wherever they run: whoever implements `Verbs` inherits these tests."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner, Result

from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.cli.common import retargeted
from slipway.cli.describe import describe
from slipway.cli.events import events
from slipway.cli.lifecycle import cancel, delete
from slipway.cli.list import list_
from slipway.cli.logs import logs
from slipway.cli.run import run
from slipway.cli.submit import submit
from slipway.cli.wait import wait
from slipway.cli.why import why
from slipway.client.logs import Line, Selection
from slipway.client.logs.interface import LogBroken, LogGone, LogQuery
from slipway.client.manifests.reading import manifest
from slipway.client.target import Target
from tests.waiting import ANSWER_SECONDS, passing, until

COMMANDS = (cancel, delete, describe, events, list_, logs, run, submit, wait, why)
_STAMPED = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d{9}Z (.*\n)")


def _stamped(line: bytes) -> tuple[bytes, bytes]:
    """The second of a line of a log, and what was printed."""
    found = _STAMPED.fullmatch(line)
    assert found is not None, line
    return found[1], found[2]


class Contract:
    """The tests; a subclass has the fixture `target`, where there are no jobs at first, and none after a test."""

    image = "slipway.local/busybox:1"

    @pytest.fixture
    def target(self) -> Target:
        """Where the jobs run."""
        raise NotImplementedError

    @pytest.fixture
    def group(self, target: Target) -> click.Group:
        return click.Group("elsewhere", [retargeted(command, lambda: target) for command in COMMANDS])

    @pytest.fixture(autouse=True)
    def _prepared(self, group: click.Group) -> None:
        self._group = group
        self.body = manifest("train", {"image": self.image, "hosts": 1, "retries": {"maxFailures": 0}})

    def call(self, *arguments: str, code: int = 0) -> Result:
        done = CliRunner().invoke(self._group, arguments)
        assert done.exit_code == code, done.output
        return done

    def made(self, script: str, *, hosts: int = 1, name: str = "train", command: str = "submit", code: int = 0) -> str:
        """Submit a job whose hosts run that script, in which each command stands after `; `."""
        given = ("--image", self.image, "--hosts", str(hosts), "--name", name, "--max-failures", "0")
        return self.call(command, *given, "--", "sh", "-c", script, code=code).output

    def written(self, output: bytes) -> None:
        """Wait until that is the log of the job: a container runs before it has written anything."""
        until(f"the log is {output!r}", lambda: self.call("logs", "train").stdout_bytes == output)

    def test_a_job_is_submitted_once(self) -> None:
        assert "slicejob train created" in self.made("echo a; sleep 600")
        assert "slicejob train unchanged" in self.made("echo a; sleep 600")
        assert "exists with another command" in self.made("echo b; sleep 600", code=2)

    def test_jobs_are_listed(self) -> None:
        assert "No SliceJobs" in self.call("list").stderr
        for name in ("train", "eval"):
            self.made("sleep 600", name=name)
        assert self.call("list", "-o", "name").stdout.split() == [
            "slicejob.slipway.dev/eval",
            "slicejob.slipway.dev/train",
        ]
        self.call("wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
        assert re.search(r"^train +Running", self.call("list").stdout, re.MULTILINE)

    def test_a_job_is_waited_for(self) -> None:
        self.made("sleep 600")
        self.call("wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
        assert "is Running after 2 s" in self.call("wait", "train", "--timeout", "2s", code=124).output
        self.made("exit 0", name="good")
        self.made("exit 3", name="bad")
        self.call("wait", "good", "--timeout", f"{ANSWER_SECONDS}s")
        self.call("wait", "bad", "--timeout", f"{ANSWER_SECONDS}s", code=1)
        self.call("wait", "nobody", code=4)

    def test_a_job_is_followed_to_its_end(self) -> None:
        assert "slicejob good Succeeded" in self.made("exit 0", name="good", command="run")
        assert "slicejob bad Failed (exit code 3)" in self.made("exit 3", name="bad", command="run", code=1)

    def test_a_job_is_described(self) -> None:
        self.made("echo a; sleep 600", hosts=2)
        self.call("wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
        found = json.loads(self.call("describe", "train", "-o", "json").stdout)
        assert found["hosts"] == {"host 0 of slice 0": "Running", "host 1 of slice 0": "Running"}
        assert [one["number"] for one in found["attempts"]] == [0]
        shown = self.call("describe", "train", "--history").stdout
        for words in ("Running", "Attempts", "Hosts"):
            assert words in shown
        self.call("describe", "nobody", code=4)

    def test_why_says_how_a_job_ended(self) -> None:
        self.made("echo the reason; exit 3")
        self.call("wait", "train", "--timeout", f"{ANSWER_SECONDS}s", code=1)
        found = json.loads(self.call("why", "train", "-o", "json").stdout)
        assert (found["phase"], found["cause"], found["log"].splitlines()) == ("Failed", "failure", ["the reason"])
        assert "train is Failed" in self.call("why", "train").stdout
        self.call("why", "nobody", code=4)

    def test_logs_are_read(self) -> None:
        self.made("echo 1; echo 2; echo 3; sleep 600")
        self.call("wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
        self.written(b"1\n2\n3\n")
        assert self.call("logs", "train", "--tail", "2").stdout_bytes == b"2\n3\n"
        assert self.call("logs", "train", "--regex", "[13]", "--invert").stdout_bytes == b"2\n"
        stamped = self.call("logs", "train", "--timestamps", "--tail", "1").stdout
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z 3\n", stamped)
        assert self.call("logs", "train", "--since", stamped.split()[0]).stdout.endswith("3\n")
        assert self.call("logs", "train", "--since", "2100-01-01T00:00:00Z").stdout_bytes == b""
        self.call("logs", "train", "--host", "1", code=2)
        self.call("logs", "nobody", code=4)

    def test_logs_of_several_hosts_are_followed_to_the_end(self) -> None:
        self.made("echo 1; echo 2; exit 0", hosts=2)
        shown = self.call("logs", "train", "--follow").stdout.splitlines()
        for host in (0, 1):
            mine = [line for line in shown if line.startswith(f"[0/{host}]")]
            assert mine == [f"[0/{host}] 1", f"[0/{host}] 2"]
        assert self.call("logs", "train", "--host", "1").stdout_bytes == b"1\n2\n"

    def test_a_job_is_cancelled_for_good(self) -> None:
        self.made("echo a; sleep 600")
        self.call("wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
        assert "slicejob train cancelled" in self.call("cancel", "train", "--now").output
        self.call("wait", "train", "--for", "cancelled", "--timeout", f"{ANSWER_SECONDS}s")
        assert "is Cancelled already" in self.call("cancel", "train", code=5).output
        self.call("cancel", "train", "--ignore-finished")
        self.call("cancel", "nobody", code=4)

    def test_a_job_is_deleted(self) -> None:
        self.made("sleep 600")
        self.call("wait", "train", "--for", "running", "--timeout", f"{ANSWER_SECONDS}s")
        assert "slicejob train deleted" in self.call("delete", "train", "--yes", "--wait").output
        self.call("delete", "train", code=4)
        self.call("logs", "train", code=4)
        assert "slicejob train created" in self.made("exit 0")

    def test_names_are_completed(self) -> None:
        self.made("sleep 600")
        complete = BashComplete(self._group, {}, "slipway", "_SLIPWAY_COMPLETE")
        for command in ("describe", "wait", "logs"):
            assert [one.value for one in complete.get_completions([command], "tr")] == ["train"]
            assert complete.get_completions([command], "other") == []

    async def test_a_stream_is_as_a_kubelet_sends_it(self, target: Target) -> None:
        self.body["spec"]["command"] = ["sh", "-c", "echo 1; echo 2; sleep 600"]
        async with target.client() as client:
            await client.submit(self.body)
            source = client.log_source(await client.wait("train", for_=("Running",), seconds=ANSWER_SECONDS))
            [pod] = await source.pods()
            query = LogQuery(pod.container)

            async def lines(query: LogQuery) -> list[bytes]:
                content = b"".join([chunk async for chunk in source.stream(pod.metadata.name, query).chunks()])
                return content.splitlines(keepends=True)

            whole: list[bytes] = []
            for _ in range(100):
                if len(whole := await lines(query)) == 2:
                    break
                await passing(0.1)
            stamps, printed = zip(*(_stamped(line) for line in whole), strict=True)
            assert printed == (b"1\n", b"2\n")
            assert await lines(replace(query, tail=1)) == whole[1:]
            second = datetime.fromisoformat(stamps[0].decode()).replace(tzinfo=UTC)
            assert await lines(replace(query, since=second)) == whole
            assert await lines(replace(query, since=second + timedelta(days=1))) == []
            with pytest.raises(LogGone):
                await anext(source.stream("train-0-0-9", query).chunks())

    async def test_a_stream_that_is_followed_can_be_cut(self, target: Target) -> None:
        self.body["spec"]["command"] = ["sh", "-c", "echo 1; sleep 600"]
        async with target.client() as client:
            await client.submit(self.body)
            source = client.log_source(await client.wait("train", for_=("Running",), seconds=ANSWER_SECONDS))
            [pod] = await source.pods()
            stream = source.stream(pod.metadata.name, LogQuery(pod.container, follow=True))

            async def read() -> None:
                content = b""
                async with asyncio.timeout(ANSWER_SECONDS), aclosing(stream.chunks()) as chunks:
                    async for chunk in chunks:
                        content += chunk
                        if content.endswith(b" 1\n"):
                            asyncio.get_running_loop().call_later(0.1, stream.cut)

            with pytest.raises(LogBroken):
                await read()

    async def test_pods_are_watched(self, target: Target) -> None:
        self.body["spec"]["command"] = ["sh", "-c", "sleep 600"]
        async with target.client() as client:
            await client.submit(self.body)
            job = await client.wait("train", for_=("Running",), seconds=ANSWER_SECONDS)
            watches: list[AsyncGenerator[Any, None]] = [client.log_source(job).watch(), client.watch_pods("train")]
            for watch in watches:
                assert [type(await anext(watch)) for _ in range(3)] == [Init, Applied, InitDone]
            await client.delete("train")
            for watch in watches:
                async with asyncio.timeout(ANSWER_SECONDS), aclosing(watch):
                    while not isinstance(event := await anext(watch), Deleted):
                        pass
                    assert event.object.metadata.name == "train-0-0-0"

    async def test_a_client_reads_what_the_commands_show(self, target: Target) -> None:
        self.body["spec"]["command"] = ["sh", "-c", "echo 1; exit 0"]
        async with target.client() as client:
            made = await client.submit(self.body)
            assert made.created
            assert (await client.wait("train", seconds=ANSWER_SECONDS)).phase == "Succeeded"
            lines = [one async for one in client.logs("train", Selection(follow=True)) if isinstance(one, Line)]
            assert [line.raw for line in lines] == [b"1\n"]
            assert (await client.manifest("train"))["metadata"]["uid"] == made.job.uid
            assert [one["number"] for one in await client.history("train")] == [0]
            async with aclosing(client.watch("train")) as states:
                state = await anext(states)
                assert state is not None
                assert state.phase == "Succeeded"
                await client.delete("train")
                assert [state async for state in states][-1] is None
            assert await client.find("train") is None
