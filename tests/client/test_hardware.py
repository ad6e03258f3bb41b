"""What commands and callers read of the hardware of a job, and where its values come from."""

import json
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from slipway.api.status import SliceJobStatus
from slipway.cli.main import main
from slipway.cli.value_sources import OPERATOR, values
from slipway.client.manifests.reading import check, manifest
from slipway.client.model import JobState, Stored
from slipway.client.outcome import failure

NVIDIA = {"vendor": "nvidia", "count": 2}
JOBS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "TPUs": ({"type": "v5e-16"}, "TPU", "v5e-16", "v5litepod-16"),
    "TPUs by generation": ({"generation": "v5p", "topology": "2x2x1"}, "TPU", "v5p 2x2x1", "v5p-8"),
    "GPUs": ({"gpu": NVIDIA}, "GPU", "GPU", "nvidia.com/gpu"),
    "a model": ({"gpu": NVIDIA | {"model": "nvidia-l4"}}, "GPU", "nvidia-l4", "nvidia-l4"),
    "no GPUs": ({"gpu": {"count": 0}}, "CPU", "", ""),
    "nothing": ({}, "CPU", "", ""),
}


def job(accelerator: dict[str, Any], **status: Any) -> JobState:
    spec = {"image": "a:1"} | ({"accelerator": accelerator} if accelerator else {})
    body = manifest("train", spec)
    body["metadata"] |= {"uid": "u", "namespace": "ml"}
    return JobState(msgspec.convert({**body, "status": status}, Stored, strict=False))


@pytest.mark.parametrize(("asked", "hardware", "before", "after"), JOBS.values(), ids=JOBS)
def test_a_job_says_what_it_runs_on_before_and_after_it_was_resolved(
    asked: dict[str, Any], hardware: str, before: str, after: str
) -> None:
    new = job(asked)
    resolved = check({"metadata": {"name": "train"}, "spec": new.stored.spec})
    seen = job(asked, resolved=resolved.model_dump(mode="json", by_alias=True, exclude_none=True))
    assert (new.hardware, new.accelerator) == (hardware, before)
    assert (seen.hardware, seen.accelerator) == (hardware, after)


@pytest.mark.parametrize(("asked", "hardware"), [row[:2] for row in JOBS.values()], ids=JOBS)
def test_an_error_says_what_the_job_ran_on(asked: dict[str, Any], hardware: str) -> None:  # E2-11
    ended = job(asked, phase="Failed", result={"reason": "ExitCode", "message": "exited with code 1"})
    assert isinstance(ended.status, SliceJobStatus)
    error = failure(ended)
    assert error is not None
    assert error.info.kind == hardware


GPU = {"gpu": {"vendor": "amd", "count": 2, "model": "MI300X"}}
SOURCES: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, str]]]] = {
    "GPUs": (
        {"accelerator": GPU, "hosts": 3},
        {
            "type": ("MI300X", "spec.accelerator.gpu.model"),
            "gpuVendor": ("amd", "spec.accelerator.gpu.vendor"),
            "gpuResource": ("amd.com/gpu", OPERATOR),
            "gpusPerHost": (2, "spec.accelerator.gpu.count"),
            "hosts": (3, "spec.hosts"),
        },
    ),
    "any model": (
        {"accelerator": {"gpu": NVIDIA}},
        {
            "type": ("nvidia.com/gpu", OPERATOR),
            "gpuVendor": ("nvidia", "spec.accelerator.gpu.vendor"),
            "gpuResource": ("nvidia.com/gpu", OPERATOR),
            "gpusPerHost": (2, "spec.accelerator.gpu.count"),
            "hosts": (1, OPERATOR),
        },
    ),
    "no GPUs": ({"accelerator": {"gpu": {"count": 0}}, "hosts": 2}, {"hosts": (2, "spec.hosts")}),
    "TPUs": (
        {"accelerator": {"type": "v5p-16"}},
        {
            "type": ("v5p-16", "spec.accelerator"),
            "label": ("tpu-v5p-slice", "spec.accelerator"),
            "topology": ("2x2x2", "spec.accelerator"),
            "hosts": (2, "spec.accelerator"),
            "chipsPerHost": (4, "spec.accelerator"),
        },
    ),
}
OF_HARDWARE = {"type", "label", "topology", "hosts", "chipsPerHost", "gpuVendor", "gpuResource", "gpusPerHost"}


@pytest.mark.parametrize(("spec", "found"), SOURCES.values(), ids=SOURCES)
def test_where_the_values_of_the_hardware_come_from(spec: dict[str, Any], found: dict[str, tuple[Any, str]]) -> None:
    rows = values(manifest("train", {"image": "a:1"} | spec), {(): "job.yaml"})
    shown = {row.field.removeprefix("status.resolved."): (row.value, row.source) for row in rows}
    assert {name: row for name, row in shown.items() if name in OF_HARDWARE} == found


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        ({}, (30, OPERATOR)),
        ({"terminationGracePeriodSeconds": 60}, (60, "spec.terminationGracePeriodSeconds")),
        (
            {
                "terminationGracePeriodSeconds": 60,
                "podTemplate": {"spec": {"terminationGracePeriodSeconds": 600}},
            },
            (600, "spec.podTemplate.spec.terminationGracePeriodSeconds"),
        ),
    ],
    ids=["by default", "the spec", "the template"],
)
def test_where_the_grace_of_the_pods_comes_from(spec: dict[str, Any], found: tuple[int, str]) -> None:
    rows = values(manifest("train", {"image": "a:1"} | spec), {(): "job.yaml"})
    assert [found] == [(row.value, row.source) for row in rows if row.field == "status.resolved.gracePeriodSeconds"]


def test_the_flags_of_gpus_are_named_as_sources() -> None:
    flags = ("--gpus", "2", "--gpu-vendor", "nvidia", "--gpu-model", "nvidia-l4", "--hosts", "2", "--spot")
    run = CliRunner().invoke(main, ["render", "--explain", "-o", "json", "--namespace", "ml", "--image", "a:1", *flags])
    assert run.exit_code == 0, run.output
    found = {row["field"]: (row["value"], row["source"]) for row in json.loads(run.output)}
    assert {
        "spec.accelerator.gpu.count": (2, "--gpus"),
        "spec.accelerator.gpu.vendor": ("nvidia", "--gpu-vendor"),
        "spec.accelerator.gpu.model": ("nvidia-l4", "--gpu-model"),
        "spec.accelerator.spot": (True, "--spot"),
        "spec.hosts": (2, "--hosts"),
    }.items() <= found.items()


@pytest.mark.parametrize("gpu", [{}, {"count": 2}, {"vendor": "nvidia"}])
def test_what_the_site_decides_about_gpus_is_left_to_the_operator(gpu: dict[str, Any]) -> None:
    body = manifest("train", {"image": "a:1", "accelerator": {"gpu": gpu}})
    assert check(body).gpus_per_host is None
