"""What a job is made from beside its manifest: images, a profile, a folder. It is the same in every attempt."""

import io
from pathlib import Path
from typing import Any, Final

import pytest

from tests.local_engine.engine import IMAGE, Engine, User

pytestmark = pytest.mark.thorough


def tagged(engine: Engine, tag: str, word: str) -> None:
    """Give an image that says a word the tag, which another may have had."""
    dockerfile = io.BytesIO(f"FROM {IMAGE}\nENV WORD={word}\n".encode())
    engine.client.images.build(fileobj=dockerfile, tag=tag, rm=True)


# T-08, T-16: a job stays with the image that its tag named when it was submitted; the next job has the new one.
def test_a_tag_that_is_moved_between_attempts(user: User, engine: Engine, shared: dict[str, Any]) -> None:
    tag = "slipway.local/moved:1"
    tagged(engine, tag, "first")
    script = "echo $WORD; [ $SLIPWAY_ATTEMPT -gt 0 ] && exit; until [ -e /shared/go ]; do sleep 0.1; done; exit 3"
    user.submit(script, "old", image=tag, hosts=2, **shared)
    engine.running("old", 2)
    tagged(engine, tag, "second")
    (Path(shared["volumes"][0]["hostPath"]["path"]) / "go").touch()
    assert user.ended("old")["attempt"] == 1
    user.submit("echo $WORD", "new", image=tag)
    user.ended("new")
    for attempt in ("0", "1"):
        logs = user.slipway("logs", "old", "--attempt", attempt).out.splitlines()
        assert sorted(logs) == ["[0/0] first", "[0/1] first"]
    assert user.slipway("logs", "new").out == "second\n"


# T-16: the id of an image stands for it, as with docker run.
def test_an_image_that_is_named_by_its_id(user: User, engine: Engine) -> None:
    tagged(engine, "slipway.local/known:1", "known")
    user.submit("echo $WORD", image=engine.client.images.get("slipway.local/known:1").id)
    assert user.ended()["phase"] == "Succeeded"
    assert user.slipway("logs", "train").out == "known\n"


PROFILE: Final = """\
apiVersion: slipway.dev/v1alpha1
kind: SliceJobProfile
metadata: {name: here}
spec:
  defaults:
    env: [{name: OF_THE_SITE, value: "from the profile"}, {name: OF_THE_JOB, value: "from the profile"}]
"""
PROGRAM: Final = """
echo "$SLIPWAY_ATTEMPT: $OF_THE_SITE, $OF_THE_JOB"
[ $SLIPWAY_ATTEMPT -gt 0 ] || exit 3
"""


# A profile and a folder to lay over the image reach the containers, of later attempts too.
def test_a_profile_and_a_folder_over_the_image(user: User, tmp_path: Path) -> None:
    (tmp_path / "profile.yaml").write_text(PROFILE)
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.sh").write_text(PROGRAM)
    (code / "secret.txt").write_text("not for the image")
    (code / ".dockerignore").write_text("secret.txt")
    options = ("--profile", f"{tmp_path}/profile.yaml", "--overlay", str(code))
    own = [{"name": "OF_THE_JOB", "value": "from the job"}]
    user.submit("[ ! -e secret.txt ] && . ./train.sh", "train", *options, profile="here", env=own)
    assert user.ended()["phase"] == "Succeeded"
    logs = user.slipway("logs", "train", "--attempt", "all").out.splitlines()
    assert logs == [f"{attempt}: from the profile, from the job" for attempt in (0, 1)]


# N-07: the same job again is the same with its options, and with what is in the folder that lies over its image.
def test_a_job_is_submitted_again_with_other_options(user: User, tmp_path: Path) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "train.sh").write_text("true")
    options = ("--ulimit", "nofile=1024", "--overlay", str(code))
    user.submit(". ./train.sh", "train", *options)
    assert "train unchanged" in user.submit(". ./train.sh", "train", *options).out
    done = user.submit(". ./train.sh", "train", "--ulimit", "nofile=2048", "--network", "host", code=2)
    assert "train in local exists with another --network, --ulimit, --overlay" in done.err
    (code / "train.sh").write_text("false")
    assert "train in local exists with another --overlay" in user.submit(". ./train.sh", "train", *options, code=2).err
    assert user.ended()["phase"] == "Succeeded"
