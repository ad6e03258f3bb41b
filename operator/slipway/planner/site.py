"""What a site gives to the jobs of a namespace: where workspaces are, its data sets, its Python, its user."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slipway.api.workspace import DataSet, WorkspaceVolume

DEFAULT_PYTHON: Final = "/usr/local/bin/python"


@dataclass(frozen=True, slots=True)
class Site:
    """Defaults of a site. A job's own values win over them."""

    workspace: WorkspaceVolume | None = None
    """Volume of the workspaces of jobs that name none."""
    data_sets: Mapping[str, Mapping[str, DataSet]] = field(default_factory=dict, hash=False)
    """Study, data set, volume."""
    python: str = DEFAULT_PYTHON
    """Python executable of jobs with a Python module that name none."""
    user: int | None = None
    """User of the pods with a workspace; None leaves it to the image."""
    group: int | None = None
    """Group of that user."""
    fs_group: int | None = None
    """Group that owns the volumes of the pods with a workspace."""
    known: bool = True
    """False for a client, which cannot say what the site of the operator has."""


NO_SITE: Final = Site()
UNKNOWN_SITE: Final = Site(known=False)
