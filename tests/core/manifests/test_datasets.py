"""The data sets of a study: where they are mounted, and that no job gets others."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from slipway.api.names import RAY_CONTAINER
from slipway.api.places import HEAD
from slipway.api.workspace import DataSets
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import Settings
from slipway.core.model.site import UNKNOWN_SITE, Site
from slipway.core.validation.acceptance import accept
from slipway.core.validation.warnings import notices
from tests.core.build import spec, world_at
from tests.core.manifests.test_pods import make

CONTENT: Any = {
    "heart": {
        "mri": {"persistentVolumeClaim": {"claimName": "mri"}},
        "notes_1": {"hostPath": {"path": "/srv/notes"}, "mode": "rw"},
        "scans": {"csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeAttributes": {"bucketName": "scans"}}},
        "weights": {"image": {"reference": "registry.local/weights:1"}},
    },
    "lung": {"ct": {"hostPath": {"path": "/srv/ct"}}},
    "none": {},
}
SITE = Site(data_sets=TypeAdapter(DataSets).validate_python(CONTENT), limits=())


def test_every_data_set_of_the_study_is_mounted_and_no_other() -> None:  # F-55, F-56
    found = make(site=SITE, study="heart")["spec"]
    assert found["volumes"] == [
        {"name": "slipway-data-0", "persistentVolumeClaim": {"claimName": "mri", "readOnly": True}},
        {"name": "slipway-data-1", "hostPath": {"path": "/srv/notes", "type": "Directory"}},
        {
            "name": "slipway-data-2",
            "csi": {
                "driver": "gcsfuse.csi.storage.gke.io",
                "volumeAttributes": {"bucketName": "scans"},
                "readOnly": True,
            },
        },
        {"name": "slipway-data-3", "image": {"reference": "registry.local/weights:1"}},
    ]
    [worker] = found["containers"]
    assert worker["volumeMounts"] == [
        {"name": "slipway-data-0", "mountPath": "/data/heart/mri", "readOnly": True},
        {"name": "slipway-data-1", "mountPath": "/data/heart/notes_1"},
        {"name": "slipway-data-2", "mountPath": "/data/heart/scans", "readOnly": True},
        {"name": "slipway-data-3", "mountPath": "/data/heart/weights", "readOnly": True},
    ]
    assert "initContainers" not in found


@pytest.mark.parametrize("fields", [{}, {"study": "none"}], ids=["F-56 no study", "F-57 a study without data sets"])
def test_there_is_nothing_where_there_is_nothing_to_mount(fields: dict[str, Any]) -> None:
    found = make(site=SITE, **fields)["spec"]
    assert "volumes" not in found
    assert "volumeMounts" not in found["containers"][0]


def test_ray_heads_have_them_too() -> None:
    head = make(HEAD, site=SITE, study="lung", ray={"entrypoint": "a"})["spec"]
    [ray] = [one for one in head["initContainers"] if one["name"] == RAY_CONTAINER]
    assert {"name": "slipway-data-0", "mountPath": "/data/lung/ct", "readOnly": True} in ray["volumeMounts"]


@pytest.mark.row("B-37")
def test_an_unknown_study_is_refused_and_the_known_ones_are_named() -> None:  # F-57
    for site, words in (
        (SITE, "the studies of this site are heart, lung, none"),
        (Site(), "this site has no studies"),
    ):
        with pytest.raises(InvalidSpec) as refused:
            accept(world_at(site, study="brain").job, Settings())
        assert (refused.value.reason, refused.value.message) == (
            "UnknownStudy",
            f"spec.study 'brain' is not known: {words}",
        )


def test_clients_leave_studies_to_the_operator() -> None:
    assert accept(world_at(UNKNOWN_SITE, study="brain").job, Settings()).spec.study == "brain"


def test_an_event_lists_what_is_mounted() -> None:  # F-56
    [event] = notices(spec(study="heart"), SITE)
    assert (event.reason, event.warning) == ("DataSetsMounted", False)
    assert event.message == (
        "study heart: mri (persistentVolumeClaim mri) at /data/heart/mri (ro), "
        "notes_1 (hostPath /srv/notes) at /data/heart/notes_1 (rw), "
        "scans (csi gcsfuse.csi.storage.gke.io) at /data/heart/scans (ro), "
        "weights (image registry.local/weights:1) at /data/heart/weights (ro)"
    )
    assert notices(spec(), SITE) == ()
