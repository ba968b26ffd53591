"""`Work`: a call between processes that is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

from ..futures import Future

__all__ = ["Work"]


class Work:
    """A call that runs in the background. `wait` returns when its tensors may be used again, or raises its error.

    `channel` carries it out (`test`, `wait`), `finish` does what remains when the data is there: a mean's division, a
    copy to where a tensor really lies.
    """

    def __init__(
        self,
        name: str = "",
        result: Any = None,
        channel: Any = None,
        request: Any = None,
        finish: Callable[[], Any] | None = None,
        timeout: float = 0.0,
        nbytes: int = 0,
    ):
        self.name, self.channel, self.request, self.timeout, self.nbytes = name, channel, request, timeout, nbytes
        self.group: Any = None
        self.number = 0  # of the call in its group
        self.among: Sequence[int] | None = None  # the ranks that take part, if not all of the group
        self._result, self._finish, self._error = result, finish, None
        self._lock = threading.Lock()
        self._future: Future | None = None
        self._done = False
        self._deadline = time.monotonic() + timeout
        if request is None:
            self._complete()

    def _complete(self, error: BaseException | None = None) -> None:
        """Does what remains; called once, by whoever finds the request done, with the lock (or before others know it)."""
        if error is None and self._finish is not None:
            try:
                self._finish()
            except Exception as wrong:
                error = wrong
        self._error, self._finish, self._done = error, None, True
        if error is None:
            self._source = getattr(self.request, "source", -1)
            self.request = None
        if self._future is not None:
            self._tell(self._future)

    def _tell(self, future: Future) -> None:
        if self._error is not None:
            future.set_exception(self._error)
        else:
            future.set_result(self._result)

    def _test(self) -> None:
        """Finds out whether the call is done; the lock is held."""
        try:
            if self.channel.test(self):
                self._complete()
            elif time.monotonic() > self._deadline:
                self._complete(self.channel.late(self, self.timeout))
        except Exception as error:
            self._complete(error)

    def poll(self) -> bool:
        """Whether the call is done, without waiting; somebody else may be looking, then it is not yet."""
        if not self._done and self.claim():
            self.release()
        return self._done

    def done(self) -> bool:
        """Whether the call is known to be done."""
        return self._done

    def claim(self) -> bool:
        """Whether the call is not done and nobody else looks at it; then it is the caller's until `release`."""
        if not self._lock.acquire(blocking=False):
            return False
        if self._done:
            self._lock.release()
            return False
        return True

    def release(self) -> None:
        """Ends a claim, with a last look."""
        try:
            self._test()
        finally:
            self._lock.release()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Waits for the call; raises its error, also if it takes longer than `timeout` or the group's."""
        if not self._done:
            limit = timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else self.timeout
            with self._lock:
                if not self._done:
                    try:
                        self.channel.wait(self, limit)
                    except BaseException as error:
                        if isinstance(error, Exception):
                            self._complete(error)
                        else:
                            self.channel.forget(self)  # interrupted: MPI still works on the tensors
                        raise
                    self._complete()
        if self._error is not None:
            raise self._error
        return True

    def is_completed(self) -> bool:
        """Whether the call is done, well or not."""
        return self.poll()

    def is_success(self) -> bool:
        """Whether the call is done and went well."""
        return self.poll() and self._error is None

    def exception(self) -> BaseException | None:
        """The error of the call, if it is done and there is one."""
        self.poll()
        return self._error

    def result(self) -> Any:
        """The tensors that the call wrote to."""
        self.wait()
        return self._result

    def source_rank(self) -> int:
        """Where a received tensor came from."""
        if self.name != "recv":
            raise RuntimeError(
                "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call."
            )
        self.wait()
        return int(self._source)

    _source_rank = source_rank

    def synchronize(self) -> None:
        """Waits for the call."""
        self.wait()

    block_current_stream = synchronize

    def get_future(self) -> Future:
        """The result as a future: tensors, once they are there."""
        if self._future is None:
            with self._lock:
                if self._future is None:
                    self._future = Future()
                    if self._done:
                        self._tell(self._future)
        return self._future
