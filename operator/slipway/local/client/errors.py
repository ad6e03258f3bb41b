"""The errors of this machine's engine, as errors of the client."""

from collections.abc import Iterator
from contextlib import contextmanager

from slipway.client import errors
from slipway.local.containers.containers import EngineLost, EngineRefuses
from slipway.local.engine.errors import EngineUnavailable, ImageBuildError
from slipway.local.images.pulls import ImageUnavailable
from slipway.local.jobs.job_files import JobExists, NoSuchJob, Outdated, Unreadable
from slipway.local.submission import Refused


@contextmanager
def as_client_errors() -> Iterator[None]:
    """Raises what goes wrong on this machine as the errors of the client."""
    try:
        yield
    except (EngineUnavailable, EngineLost) as error:
        raise errors.Unreachable(str(error)) from error
    except NoSuchJob as error:
        raise errors.NotFound(str(error)) from error
    except Unreadable as error:
        raise errors.ClusterError(str(error)) from error
    except JobExists as error:
        raise errors.AlreadyExists(str(error)) from error
    except Outdated as error:
        raise errors.ChangedMeanwhile(str(error)) from error
    except (Refused, ImageUnavailable, ImageBuildError) as error:
        raise errors.Refused(str(error)) from error
    except OSError as error:
        if error.filename is None:
            raise
        words = f"the folder of this machine's jobs cannot be used: {error}; XDG_STATE_HOME names another"
        raise errors.Refused(words) from error
    except EngineRefuses as error:
        raise errors.ServerFailed(f"the Docker engine refuses: {error}") from error
