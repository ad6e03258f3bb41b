"""This machine's engine as a place where jobs are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slipway.client.target import Target
from slipway.core.model.job import Settings
from slipway.local.jobs.job_files import NAMESPACE
from slipway.local.submission import NO_WISHES, Wishes
from slipway.local.supervisor.cache import SETTINGS

if TYPE_CHECKING:
    from rich.console import Console

    from slipway.local.client.client import AsyncLocalClient


@dataclass(frozen=True)
class LocalTarget(Target):
    """The Docker engine that the docker command would use."""

    wishes: Wishes = NO_WISHES
    """What jobs that are submitted get beside their manifest."""
    console: Console | None = None
    """Where to show how far images are that are pulled; nowhere if None."""

    @property
    def resolved_namespace(self) -> str:
        """The one namespace that there is."""
        return NAMESPACE

    @property
    def folder(self) -> Path:
        """The current one: its containers see the folders of this machine."""
        return Path.cwd()

    @property
    def settings(self) -> Settings:
        """Those of the supervisors."""
        return SETTINGS

    def client(self) -> AsyncLocalClient:
        """A client of its own for each call, to be opened with `async with`."""
        # It needs this module.
        from slipway.local.client.client import AsyncLocalClient

        return AsyncLocalClient(self.wishes, self.console)
