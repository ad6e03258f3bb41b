"""A server of a test on 127.0.0.1, and a kubeconfig that leads to it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from aiohttp import web


@asynccontextmanager
async def served(application: web.Application) -> AsyncIterator[str]:
    """The URL of the application, at a port of its own."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def kubeconfig(folder: Path, url: str, user: dict[str, Any] | None = None, *, namespace: str | None = None) -> Path:
    """A file in the folder that leads to a server; without a `user` nobody has to prove who he is."""
    context = {"cluster": "it", "user": "it"} | ({"namespace": namespace} if namespace is not None else {})
    whole = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": context}],
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": user or {}}],
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(whole))
    return folder / "kubeconfig"
