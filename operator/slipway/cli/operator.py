"""`slipway operator`: the process that runs in the cluster."""

import os
import signal
import sys

import click


@click.command()
@click.option("--operator-id", metavar="ID", help="Serve the jobs with this label slipway.dev/operator-id only.")
@click.option("--namespaces", metavar="NAMES", help="Namespaces to serve, separated by commas; all by default.")
@click.option("--coordinator-port", metavar="PORT", help="Coordinator port of jobs that name none; 8081 by default.")
@click.option("--topology-key", metavar="LABEL", help="Node label whose values are TPU slices.")
@click.option("--max-pods", metavar="NUMBER", help="Worker pods that one job may have; 16384 by default.")
@click.option("--lease-name", metavar="NAME", help="Lease that says which process leads.")
@click.option("--lease-namespace", metavar="NAME", help="Namespace of the Lease; the operator's own by default.")
@click.option("--lease-duration", metavar="SECONDS", help="Without a renewal for so long, another process leads.")
@click.option("--renew-deadline", metavar="SECONDS", help="Without a renewal for so long, the leader ends.")
@click.option("--retry-period", metavar="SECONDS", help="Between two renewals of the Lease.")
@click.option("--log-level", metavar="LEVEL", help="debug, info, warning or error.")
@click.option("--log-format", metavar="FORMAT", help="text or json; text by default.")
@click.option("--health-port", metavar="PORT", help="Port of /healthz; 0 serves none.")
@click.option("--metrics-port", metavar="PORT", help="Port of /metrics; 0 serves none.")
@click.option("--image", metavar="IMAGE", help="Image with Slipway, for jobs with a workspace or an output.")
@click.option("--read-secrets", metavar="true|false", help="Look for the Secrets that a job names; false by default.")
@click.option("--kubeconfig", metavar="FILE", help="Kubeconfig to use; otherwise as kubectl would.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig.")
def operator(**options: str | None) -> None:
    """Run the operator until it is told to stop."""
    # Until the event loop hears the signal: there is nothing to put away before it runs. An exception might be raised
    # while pydantic builds a model, which would report it as an error of that model.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    # Here, because no other command needs kopf and it takes most of a second to load.
    from slipway.controller.main import main
    from slipway.controller.settings import Flags

    sys.exit(main(Flags(**options)))
