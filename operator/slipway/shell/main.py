"""The operator's process: start, run until told to stop, leave nothing behind."""

import asyncio
import logging
import signal
import sys
from contextlib import suppress
from typing import Final

import kopf
from prometheus_client import ProcessCollector

from slipway.cluster import paths
from slipway.cluster.access import AccessError, load_access
from slipway.cluster.calls import Calls
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import ConnectionLost, NotFound, ServerError, SlipwayClusterError, TooManyRequests
from slipway.cluster.lease import Lease, LostLeadership
from slipway.cluster.wire import JsonObject
from slipway.shell import logs
from slipway.shell.clock import Clock
from slipway.shell.engine import Engine, EngineFailed
from slipway.shell.gauges import Gauges
from slipway.shell.handlers import kopf_settings, registry_for
from slipway.shell.health import Probes
from slipway.shell.metrics import Metrics
from slipway.shell.policy import backoff
from slipway.shell.serving import serving
from slipway.shell.settings import Flags, OperatorSettings, SettingsError, read_settings

log = logging.getLogger(__name__)

LONGEST_PAUSE: Final = 30.0
"""Seconds, at most, between two looks for the CRD or the API server."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
"""Started with settings, or in a cluster, that it cannot work with."""


class Refused(Exception):
    """The operator cannot work in this cluster; the message says why."""


async def run(settings: OperatorSettings, stop: asyncio.Event | None = None) -> int:
    """Run the operator until SIGTERM, SIGINT or `stop`; returns the process's exit code."""
    try:
        access = await load_access(settings.kubeconfig, settings.context)
    except AccessError as error:
        log.error("%s", error)
        return EXIT_REFUSED
    clock, probes, calls = Clock(), Probes(), Calls()
    gauges = Gauges(calls, clock)
    metrics = Metrics(gauges, ProcessCollector(registry=None))
    async with (
        ApiConnection(access, calls=calls) as api,
        ApiConnection(access, calls=calls) as lease_api,
        probes.serving(settings.health_port),
        serving(settings.metrics_port, {"/metrics": metrics.answer}),
    ):
        api.on_date = clock.heard
        stop, code = stop or asyncio.Event(), None
        while code is None:
            try:
                await _until_served(api, settings, probes, stop)
            except Refused as error:
                log.error("%s", error)
                return EXIT_REFUSED
            if stop.is_set():
                return EXIT_OK
            lease = Lease(
                lease_api,
                settings.lease_namespace,
                settings.lease_name,
                settings.identity,
                now=clock.now,
                clock=clock.monotonic,
                served=settings.namespaces,
            )
            api.guard = lease.check
            engine = Engine(api, lease, settings, clock, metrics)
            probes.figures = engine.health
            gauges.follow(engine, lease)
            code = await _serve(engine, api, settings, stop)
            probes.figures = None
            gauges.follow(None, None)
        return code


async def _until_served(api: ApiConnection, settings: OperatorSettings, probes: Probes, stop: asyncio.Event) -> None:
    """Wait until the API server serves SliceJobs, or for `stop`.

    An API server that is away comes back, and a CRD can be installed at any time; ending because of it would only add
    the kubelet's pause to the outage.

    Raises:
        Refused: when waiting does not help.
    """
    failures = 0
    _listen_to_signals(stop)
    while not stop.is_set():
        try:
            await _look(api, settings)
            return
        except _MAY_PASS as error:
            failures += 1
            waiting = _MISSING if isinstance(error, NotFound) else f"the API server does not answer: {error}"
            if failures == 1 or waiting != probes.waiting:
                log.warning("%s; Slipway goes on trying", waiting)
            probes.waiting = waiting
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), min(backoff(error, failures), LONGEST_PAUSE))
        except SlipwayClusterError as error:
            raise Refused(f"SliceJobs cannot be listed: {error}") from error


_MAY_PASS: Final = (NotFound, ConnectionLost, ServerError, TooManyRequests)
_MISSING: Final = (
    "the API server does not know SliceJobs: install the CRD of the chart (kubectl apply -f crds/, or helm upgrade)"
)


async def _look(api: ApiConnection, settings: OperatorSettings) -> None:
    namespace = settings.namespaces[0] if settings.namespaces else ""
    await api.get(f"{paths.jobs(namespace)}?limit=1", JsonObject)


def _listen_to_signals(stop: asyncio.Event) -> None:
    """Until kopf puts handlers of its own in their place."""
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _serve(engine: Engine, api: ApiConnection, settings: OperatorSettings, stop: asyncio.Event) -> int | None:
    """Serve SliceJobs until something ends it; returns the exit code, None when the CRD was deleted meanwhile."""
    # All of these before kopf, for at its end kopf waits for every task that began after its start.
    end = asyncio.Event()
    relay = asyncio.create_task(_relay(stop, end))
    over = engine.start()
    over.add_done_callback(lambda _: end.set())
    try:
        await kopf.operator(
            registry=registry_for(engine, api, end),
            settings=kopf_settings(),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            # Else kopf asks for the name of the user, and that of the image has none.
            identity=settings.identity,  # type: ignore[arg-type]
            stop_flag=end,
        )
    except Exception as error:
        if await _crd_is_gone(api, settings):
            return None
        log.error("the watch of SliceJobs ended: %s", error)
        return EXIT_FAILED
    finally:
        await engine.stop()
        relay.cancel()
    if not over.done():
        log.info("stopped")
        return EXIT_OK
    failure = over.exception()
    if isinstance(failure, LostLeadership | EngineFailed):
        log.error("stopped: %s", failure)
    else:
        log.error("stopped by a mistake in Slipway", exc_info=failure)
    return EXIT_FAILED


async def _relay(stop: asyncio.Event, end: asyncio.Event) -> None:
    await stop.wait()
    end.set()


async def _crd_is_gone(api: ApiConnection, settings: OperatorSettings) -> bool:
    try:
        await _look(api, settings)
    except SlipwayClusterError as error:
        return isinstance(error, NotFound)
    return False


def main(flags: Flags | None = None) -> int:
    """Read the settings and run; returns the process's exit code."""
    try:
        settings = read_settings(flags)
    except SettingsError as error:
        print(f"slipway operator: {error}", file=sys.stderr)
        return EXIT_REFUSED
    logs.configure(settings.logging_level, settings.log_format)
    return asyncio.run(run(settings))
