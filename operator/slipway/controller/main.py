"""The operator's process: start, run until told to stop, leave nothing behind."""

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import kopf
import uvloop
from prometheus_client import ProcessCollector

from slipway.apiserver.access import AccessError, load_access
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.request_counts import Calls
from slipway.controller.clock import Clock
from slipway.controller.engine import Engine, EngineFailed
from slipway.controller.gauges import Gauges
from slipway.controller.handlers import kopf_settings, registry_for
from slipway.controller.lease import Lease, LostLeadership
from slipway.controller.namespaces import Refused, Served
from slipway.controller.observability import log_format
from slipway.controller.observability.health import Probes
from slipway.controller.observability.http_server import serving
from slipway.controller.observability.metrics import Metrics
from slipway.controller.settings import Flags, OperatorSettings, SettingsError, read_settings

log = logging.getLogger(__name__)

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_REFUSED = 2
"""Started with settings, or in a cluster, that it cannot work with."""

PAUSES: Final = (1.0, 2.0, 4.0, 8.0)
"""Seconds before SliceJobs are watched again, by how often the watch has ended within AGAIN_SECONDS; then no more."""
AGAIN_SECONDS: Final = 60.0


class _Ends:
    """When kopf ended by itself: a bad answer does not end our own watches, and ends it in every process at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._moments: list[float] = []
        self._pause = 0.0

    def add(self, error: Exception) -> int | None:
        """Say what happened; returns the exit code, None while there is hope."""
        now = self._clock()
        self._moments = [*(at for at in self._moments if now - at < AGAIN_SECONDS), now]
        words = next((argument for argument in error.args if argument), type(error).__name__)
        if len(self._moments) > len(PAUSES):
            log.error("the watch of SliceJobs ended again and again, at last with: %s", words)
            return EXIT_FAILED
        self._pause = PAUSES[len(self._moments) - 1]
        log.warning("the watch of SliceJobs ended and begins anew in %.0f s: %s", self._pause, words)
        return None

    async def rest(self, stop: asyncio.Event) -> None:
        """Wait after an end, or for `stop`."""
        pause, self._pause = self._pause, 0.0
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), pause)


async def run(settings: OperatorSettings, stop: asyncio.Event | None = None) -> int:
    """Run the operator until SIGTERM, SIGINT or `stop`; returns the process's exit code."""
    stop = stop or asyncio.Event()
    _listen_to_signals(stop)
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
        code, served, ends = None, Served(api, settings.namespaces), _Ends(clock.monotonic)
        while code is None:
            try:
                await served.until_known(probes, stop)
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
                served=served.namespaces,
                times=settings.lease_times,
            )
            api.guard = lease.check
            engine = Engine(api, lease, replace(settings, namespaces=served.namespaces), clock, metrics)
            probes.figures, probes.awaited = engine.health, lease.awaited
            gauges.follow(engine, lease)
            code = await _serve(engine, api, settings.identity, served, ends, stop)
            probes.figures = None
            gauges.follow(None, None)
            del engine
            # It froze what it had listed, and the next one lists all of that again.
            gc.unfreeze()
            gc.collect()
            await ends.rest(stop)
        return code


def _listen_to_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _serve(
    engine: Engine, api: ApiConnection, identity: str, served: Served, ends: _Ends, stop: asyncio.Event
) -> int | None:
    """Serve SliceJobs until something ends it; returns the exit code, None when there is something else to serve."""
    # All of these before kopf, for at its end kopf waits for every task that began after its start.
    end, asked = asyncio.Event(), asyncio.Event()
    relay = asyncio.create_task(_relay(stop, end))
    changes = asyncio.create_task(served.until_changed(asked))
    changes.add_done_callback(lambda _: end.set())
    over = engine.start()
    over.add_done_callback(lambda _: end.set())
    ended: Exception | None = None
    before = asyncio.all_tasks()
    try:
        tasks = await kopf.spawn_tasks(
            registry=registry_for(engine, api, end, asked),
            settings=kopf_settings(),
            standalone=True,
            clusterwide=not served.namespaces,
            namespaces=served.namespaces,
            # Else kopf asks for the name of the user, and that of the image has none.
            identity=identity,  # type: ignore[arg-type]
            stop_flag=end,
        )
        # kopf has just put handlers of its own in place of ours, which hear nothing when it ends for another reason.
        _listen_to_signals(stop)
        await kopf.run_tasks(tasks, ignored=before)
    except Exception as error:
        ended = error
    finally:
        await engine.stop()
        relay.cancel()
        changes.cancel()
    changed = changes.done() and not changes.cancelled()
    if changed and changes.exception() is None and not stop.is_set():
        return None
    if over.done():
        return _failed(over.exception())
    if changed and (failure := changes.exception()) is not None:
        return _failed(failure)
    if ended is None or stop.is_set():
        log.info("stopped")
        return EXIT_OK
    return None if await served.changed() else ends.add(ended)


def _failed(failure: BaseException | None) -> int:
    if isinstance(failure, LostLeadership | EngineFailed):
        log.error("stopped: %s", failure)
    else:
        log.error("stopped by a mistake in Slipway", exc_info=failure)
    return EXIT_FAILED


async def _relay(stop: asyncio.Event, end: asyncio.Event) -> None:
    await stop.wait()
    end.set()


def main(flags: Flags | None = None) -> int:
    """Read the settings and run; returns the process's exit code."""
    try:
        settings = read_settings(flags)
    except SettingsError as error:
        print(f"slipway operator: {error}", file=sys.stderr)
        return EXIT_REFUSED
    log_format.configure(settings.logging_level, settings.log_format)
    # asyncio's loop reads one buffer of a connection in a turn. With buffers of 32 KiB the watch of pods fell half a
    # minute behind while thousands were created; its own of 256 KiB take memory for each connection.
    return uvloop.run(run(settings))
