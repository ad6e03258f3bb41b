"""An empty volume is there for whoever the container runs as, on a real engine."""

import io
import tarfile
from typing import Any

import pytest

from slipway.local.conversion.convert import ContainerRequest, Surroundings, containers
from slipway.local.conversion.empty_volumes import opening
from tests.local.pods import create, with_spec
from tests.local.servers import tool

PROGRAM = "busybox touch /scratch/deep/here && busybox stat -c %a /scratch/deep"


@pytest.fixture
def image(client: Any) -> str:
    """Only busybox, with nothing at the places of volumes."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        archive.add(tool("busybox"), "bin/busybox")
    client.api.import_image_from_data(content.getvalue(), repository="only-busybox", tag="1")
    return "only-busybox:1"


@pytest.mark.parametrize("read_only", [False, True])
def test_a_user_who_is_not_root_can_write(client: Any, image: str, *, read_only: bool) -> None:
    body = with_spec(
        {"volumes": [{"name": "v", "emptyDir": {}}]},
        image=image,
        command=["/bin/busybox", "sh", "-c", PROGRAM.replace("busybox", "/bin/busybox")],
        volumeMounts=[{"name": "v", "mountPath": "/scratch/deep"}],
        securityContext={"runAsUser": 1000, "readOnlyRootFilesystem": read_only},
    )
    request = containers(body, Surroundings())[-1]
    archive = opening(request.body["HostConfig"].get("Mounts", ()))
    assert archive is not None
    made = [create(client, request)]
    try:
        if read_only:
            second = ContainerRequest("second", {"Image": image, "Cmd": ["x"], "HostConfig": {"VolumesFrom": made}})
            made.append(create(client, second))
        assert client.api.put_archive(made[-1], "/", archive)
        client.api.start(made[0])
        ended = client.api.wait(made[0])
        assert (ended["StatusCode"], client.api.logs(made[0])) == (0, b"777\n")
    finally:
        for one in made:
            client.api.remove_container(one, v=True, force=True)
