"""Turns SIGTERM and SIGHUP into Ctrl-C, so that a command removes what it has created."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TOLD_TO_END: Final = (signal.SIGTERM, signal.SIGHUP)
"""As from `timeout` or a CI runner, and from a terminal that is closed."""


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM and SIGHUP are Ctrl-C meanwhile, unless somebody else handles or ignores them, as nohup does.

    Only the first one counts: a terminal may send several, and what is being removed then is removed to its end.
    """
    main = threading.current_thread() is threading.main_thread()
    numbers = [one for one in _TOLD_TO_END if main and signal.getsignal(one) is signal.SIG_DFL]

    def interrupt(*_: object) -> None:
        _handle(numbers, signal.SIG_IGN)
        raise KeyboardInterrupt

    _handle(numbers, interrupt)
    try:
        yield
    finally:
        _handle(numbers, signal.SIG_DFL)


def _handle(numbers: list[signal.Signals], handler: object) -> None:
    for number in numbers:
        signal.signal(number, handler)  # type: ignore[arg-type]
