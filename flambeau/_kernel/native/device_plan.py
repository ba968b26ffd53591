"""Plans of calls on a GPU, in words: arrays for the results, then launches and calls of libraries over their memory."""

from __future__ import annotations

import array
from collections.abc import Callable, Sequence
from typing import Any

# Sizes in bytes of what stands in a plan for one result, one call before its arguments, and one argument.
RESULT, CALL, ARGUMENT = 16, 80, 16
RESULTS, CALLS, ARGUMENTS = 24, 1024, 80  # at most; kernels of CUDA take 4096 bytes of arguments, which is more
PASSED = 24  # words that a function of a library is called with: those that it does not take it does not see
WRITES, ABOUT = (
    24,
    56,
)  # where a plan says which of its arguments it writes to, and where the arguments' memory is described
# There: whether the first argument is the result; then of each the first byte, the last one, a layout's number, and how it lies in pieces:
# how far apart these begin, and how long they are.
FIRST, SPANS, SPAN = 0, 8, 40


def call_words(kernel: int, address: int, sizes: Sequence[int], args: Sequence[tuple[int, int]]) -> list[int]:
    """A launch of a kernel with sizes of grid and blocks, or a call of the function at an address.

    Each argument is a constant, or the number of memory and bytes from its beginning."""
    if len(args) > (PASSED if address else ARGUMENTS):
        raise ValueError("too many arguments")
    words = [len(args), address, kernel, *sizes, 0]
    for source, value in args:
        words += [source if source < 0 else 8 * source, value]
    return words


class DevicePlan:
    """What one call does. It begins as the plans of calls on the CPU do (`plan.Plan`).

    Memory goes by numbers: first the tensors among the arguments (`inputs` of them), then results: those that are returned,
    those that the node keeps besides (up to `kept`), memory on the way.
    """

    def __init__(self, inputs: int) -> None:
        self.inputs = inputs
        self.kept = 0
        self.pattern: Any = None
        self.together: Any = None
        self.results: list[int] = []
        self.calls: list[int] = []
        self.counts = [0, 0, 0]  # results, those returned, calls
        self.keep: list[Any] = []
        self.writes = 0  # arguments that are written to, in bits
        self.about: array.array[int] | None = None

    def result(self, make: Callable[[], Any], dtype: Any, returned: bool) -> int:
        """A result that `make()` makes the array of; gives its number."""
        self.results += [id(make), id(dtype)]
        self.keep += [make, dtype]
        self.counts[0] += 1
        self.counts[1] += returned
        return self.inputs + self.counts[0] - 1

    def number(self, give: Callable[[], int]) -> int:
        """A word that `give()` gives each time, among results that are not returned; it goes where addresses go."""
        self.results += [id(give), 0]
        self.keep.append(give)
        self.counts[0] += 1
        return self.inputs + self.counts[0] - 1

    def nothing(self) -> None:
        """None, in the place of a result."""
        self.results += [0, 0]
        self.counts[0] += 1
        self.counts[1] += 1

    def call(self, kernel: int, address: int, sizes: Sequence[int], args: Sequence[tuple[int, int]]) -> None:
        """A launch or a call of a library's function (see `call_words`)."""
        self.calls += call_words(kernel, address, sizes, args)
        self.counts[2] += 1

    def written(self, arguments: Sequence[int], first: bool, spans: Sequence[Sequence[int]]) -> None:
        """Says which arguments are written to, whether the first one is the result, and where the memory of all tensors among them lies."""
        self.writes = sum([1 << i for i in arguments])
        self.about = array.array("q", [first, *[n for span in spans for n in span]])

    def words(self) -> array.array[int]:
        together = 0 if self.together is None else id(self.together)
        pattern = 0 if self.pattern is None else self.pattern.buffer_info()[0]
        about = 0 if self.about is None else self.about.buffer_info()[0]
        fixed = self.writes, together, pattern, self.kept, about
        return array.array("q", [*self.counts, *fixed, *self.results, *self.calls])
