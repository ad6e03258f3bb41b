"""The operator's process: start, run until told to stop, leave nothing behind."""

import asyncio
import logging
import sys

import kopf

from slipway.cluster import paths
from slipway.cluster.access import AccessError, load_access
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import ConnectionLost, NotFound, ServerError, SlipwayClusterError, TooManyRequests
from slipway.cluster.lease import Lease, LostLeadership
from slipway.cluster.wire import JsonObject
from slipway.shell import logs
from slipway.shell.clock import Clock
from slipway.shell.engine import Engine, EngineFailed
from slipway.shell.handlers import kopf_settings, registry_for
from slipway.shell.policy import backoff
from slipway.shell.settings import Flags, OperatorSettings, SettingsError, read_settings

log = logging.getLogger(__name__)

CRD_TRIES = 3
"""Looks for the CRD before giving up: 3.5 s in all."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
"""Started with settings, or in a cluster, that it cannot work with."""


async def run(settings: OperatorSettings, stop: asyncio.Event | None = None) -> int:
    """Run the operator until SIGTERM, SIGINT or `stop`; returns the process's exit code."""
    try:
        access = await load_access(settings.kubeconfig, settings.context)
    except AccessError as error:
        log.error("%s", error)
        return EXIT_REFUSED
    clock = Clock()
    async with ApiConnection(access) as api:
        api.on_date = clock.heard
        if (problem := await _problem(api, settings)) is not None:
            log.error("%s", problem)
            return EXIT_REFUSED
        lease = Lease(
            api,
            settings.lease_namespace,
            settings.lease_name,
            settings.identity,
            now=clock.now,
            clock=clock.monotonic,
        )
        api.guard = lease.check
        return await _serve(Engine(api, lease, settings, clock), api, settings, stop or asyncio.Event())


async def _problem(api: ApiConnection, settings: OperatorSettings) -> str | None:
    """Why the operator cannot work in this cluster, as far as one request can tell.

    An API server that is away comes back; ending because of it would only add the kubelet's pause to the outage.
    """
    namespace, failures = settings.namespaces[0] if settings.namespaces else "", 0
    while True:
        try:
            await api.get(f"{paths.jobs(namespace)}?limit=1", JsonObject)
            return None
        except (NotFound, ConnectionLost, ServerError, TooManyRequests) as error:
            failures += 1
            # A CRD that was applied just now is served a moment later.
            if isinstance(error, NotFound) and failures > CRD_TRIES:
                return "the cluster does not know SliceJobs: install the chart's CRD (kubectl apply -f crds/) first"
            wait = min(backoff(error, failures), 5.0)
            log.warning("the API server does not answer; next try in %.1f s: %s", wait, error)
            await asyncio.sleep(wait)
        except SlipwayClusterError as error:
            return f"SliceJobs cannot be listed: {error}"


async def _serve(engine: Engine, api: ApiConnection, settings: OperatorSettings, stop: asyncio.Event) -> int:
    # Before kopf, for at its end kopf waits for every task that began after its start.
    over = engine.start()
    over.add_done_callback(lambda _: stop.set())
    port = settings.health_port
    try:
        await kopf.operator(
            registry=registry_for(engine, api, stop),
            settings=kopf_settings(),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            liveness_endpoint=f"http://0.0.0.0:{port}/healthz" if port else None,
            stop_flag=stop,
        )
    except Exception as error:
        log.error("the watch of SliceJobs ended: %s", error)
        return EXIT_FAILED
    finally:
        await engine.stop()
    if not over.done():
        log.info("stopped")
        return EXIT_OK
    failure = over.exception()
    if isinstance(failure, LostLeadership | EngineFailed):
        log.error("stopped: %s", failure)
    else:
        log.error("stopped by a mistake in Slipway", exc_info=failure)
    return EXIT_FAILED


def main(flags: Flags | None = None) -> int:
    """Read the settings and run; returns the process's exit code."""
    try:
        settings = read_settings(flags)
    except SettingsError as error:
        print(f"slipway operator: {error}", file=sys.stderr)
        return EXIT_REFUSED
    logs.configure(settings.logging_level)
    return asyncio.run(run(settings))
