"""Functions and classes that run on slices when they are called; decorating one calls nothing."""

import inspect
from collections.abc import Callable
from concurrent.futures import Future
from functools import update_wrapper, wraps
from typing import Any

from slipway.client.errors import JobSucceeded
from slipway.sdk.functions import RayExecutor
from slipway.sdk.session import Session

Function = Callable[..., Any]


def _checked(executor: RayExecutor) -> RayExecutor:
    # Decorators are easily written without their brackets, and then find out at the first call.
    if not isinstance(executor, RayExecutor):
        raise TypeError(f"the decorator takes a RayExecutor, not {type(executor).__name__}: write @NAME(executor)")
    return executor


def execute(executor: RayExecutor) -> Callable[[Function], Callable[..., JobSucceeded[list[Any]]]]:
    """Each call of the function is `executor.execute`."""
    call = _checked(executor).execute
    return lambda function: wraps(function)(lambda *args, **kwargs: call(function, args, kwargs))


def execute_resumable(executor: RayExecutor) -> Callable[[Function], Callable[..., list[Any]]]:
    """Each call of the function is `executor.execute_resumable`."""
    call = _checked(executor).execute_resumable
    return lambda function: wraps(function)(lambda *args, **kwargs: call(function, args, kwargs))


def autoscale_execute(executor: RayExecutor) -> Callable[[Function], Callable[..., JobSucceeded[list[Any]]]]:
    """Each call of the function is `executor.autoscale_execute`."""
    call = _checked(executor).autoscale_execute
    return lambda function: wraps(function)(lambda *args, **kwargs: call(function, args, kwargs))


def autoscale_execute_resumable(executor: RayExecutor) -> Callable[[Function], Callable[..., list[Any]]]:
    """Each call of the function is `executor.autoscale_execute_resumable`."""
    call = _checked(executor).autoscale_execute_resumable
    return lambda function: wraps(function)(lambda *args, **kwargs: call(function, args, kwargs))


class RemoteFunction:
    """A function that runs on every host: a call waits for the results, `.remote` returns a future of them."""

    def __init__(self, function: Function, session: Session, flatten: bool) -> None:
        self._function, self.session, self._flatten = function, session, flatten
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Run it on every host and wait."""
        return self.session.run_function(self._function, args, kwargs, flatten=self._flatten)

    def remote(self, *args: Any, **kwargs: Any) -> "Future[list[Any]]":
        """Start it and return at once."""
        return self.session.start_function(self._function, args, kwargs, flatten=self._flatten)

    def close(self) -> None:
        """Close the session."""
        self.session.close()


class RemoteClass:
    """A class whose objects are made anew on every host for each call of a method."""

    def __init__(self, cls: type, session: Session, flatten: bool) -> None:
        self._cls, self.session, self._flatten = cls, session, flatten
        update_wrapper(self, cls, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> "RemoteObject":
        """Keep what the constructor will be given on every host."""
        return RemoteObject(self._cls, (args, kwargs), self.session, self._flatten)

    def close(self) -> None:
        """Close the session."""
        self.session.close()


class RemoteObject:
    """What a `RemoteClass` makes: any method of the class may be called; `close` closes the session."""

    def __init__(self, cls: type, init: tuple[Any, Any], session: Session, flatten: bool) -> None:
        self._cls, self._init, self._session, self._flatten = cls, init, session, flatten

    def __getattr__(self, name: str) -> "RemoteMethod":
        getattr(self._cls, name)
        return RemoteMethod(self._cls, name, self._init, self._session, self._flatten)

    def close(self) -> None:
        """Close the session."""
        self._session.close()


class RemoteMethod:
    """A method of a `RemoteObject`: a call waits for the results, `.remote` returns a future of them."""

    def __init__(self, cls: type, name: str, init: tuple[Any, Any], session: Session, flatten: bool) -> None:
        self._cls, self._name, self._init, self._session, self._flatten = cls, name, init, session, flatten

    def __call__(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Run it on every host and wait."""
        return self._session.run_class_method(
            self._cls, self._name, args, kwargs, init_args=self._init[0], init_kwargs=self._init[1],
            flatten=self._flatten,
        )  # fmt: skip

    def remote(self, *args: Any, **kwargs: Any) -> "Future[list[Any]]":
        """Start it and return at once."""
        return self._session.start_class_method(
            self._cls, self._name, args, kwargs, init=self._init, flatten=self._flatten
        )


def device_remote(*, executor: RayExecutor, flatten: bool = True) -> Callable[[Any], RemoteFunction | RemoteClass]:
    """Run a function, or the methods of a class, on every host of a session of its own, made at the first call.

    Raises:
        TypeError: when something else is decorated, or `executor` is no RayExecutor.
    """
    session = Session(_checked(executor))

    def decorate(target: Any) -> RemoteFunction | RemoteClass:
        if inspect.isclass(target):
            return RemoteClass(target, session, flatten)
        if inspect.isfunction(target):
            return RemoteFunction(target, session, flatten)
        raise TypeError(f"device_remote takes a function or a class, not {type(target).__name__}")

    return decorate


tpu_remote = device_remote
