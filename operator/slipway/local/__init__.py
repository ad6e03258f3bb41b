"""The verbs of the client for jobs on this machine's Docker engine."""

from slipway.local.client import LocalClient
from slipway.local.target import LocalTarget

__all__ = ["LocalClient", "LocalTarget"]
