"""The command of a container: as the spec has it, or made of a Python module."""

from slipway.api.slicejob import SliceJobSpec
from slipway.api.workspace import PythonModule
from slipway.planner.actions import Body
from slipway.planner.site import Site


def program(spec: SliceJobSpec, site: Site) -> Body:
    """Command and arguments of the worker container."""
    if spec.python_module is None:
        return {"command": list(spec.command), "args": list(spec.args)}
    module = spec.python_module
    return {"command": [module.python or site.python, "-u", "-m", module.module], "args": _arguments(module)}


def _arguments(module: PythonModule) -> list[str]:
    pairs = [(one.name, str(one.value)) for one in module.args if one.value is not None]
    return [word for pair in pairs for word in pair] + (["--set", *module.set] if module.set else [])
