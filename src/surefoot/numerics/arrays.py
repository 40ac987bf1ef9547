"""Arrays of the array API standard: how they lie in memory, and the engines that hold them.

Engines are NumPy, PyTorch on the processor, or PyTorch on a CUDA device. All use the same solvers.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Self

import array_api_compat
import numpy as np
from array_api_compat import device
from numpy.typing import NDArray

from surefoot.errors import InputError, require_known

Array = Any
"""An array of the array API standard: NumPy's, PyTorch's, …"""

BLOCK_ROWS = 2**17
BLOCK_CELLS = 2**23
"""Most rows, and most numbers, in a block of a computation over many rows."""
_namespaces: dict[type, Any] = {}


def array_namespace(values: Array) -> Any:
    """`array_api_compat.array_namespace`, cached by the type of the array."""
    namespace = _namespaces.get(type(values))
    if namespace is None:
        namespace = _namespaces[type(values)] = array_api_compat.array_namespace(values)
    return namespace


class PerParticipant:
    """Base of dataclasses that hold only arrays whose first axis is people."""

    def of(self, people: Array) -> Self:
        """The part of some people, given by their positions or a mask."""
        return type(self)(*map(itemgetter(people), vars(self).values()))

    def record(self, people: Array, theirs: Self) -> None:
        """Overwrite the part of some people."""
        for mine, new in zip(vars(self).values(), vars(theirs).values(), strict=True):
            mine[people] = new


def contiguous(values: Array) -> Array:
    """C-contiguous copy.

    A view with other strides would be slower to read, and the layout affects how products are rounded.
    """
    if isinstance(values, np.ndarray):
        return np.array(values, order="C")  # This takes a third of the time, which matters for few people.
    copy = array_namespace(values).empty(values.shape, dtype=values.dtype, device=device(values))
    copy[...] = values
    return copy


def empty_columns(values: Array, size: int) -> Array:
    """Room for `size` columns next to the rows of `values` (…, rows, columns), each column side by side in memory."""
    xp = array_namespace(values)
    room = xp.empty((*values.shape[:-2], size, *values.shape[-2:-1]), dtype=values.dtype, device=device(values))
    return xp.matrix_transpose(room) if values.ndim > 1 else room


def stack_features(features: list[Array]) -> Array:
    """(people, features, rows) of features (people, rows): in memory one feature of everybody after the other, so that
    weights of the rows are multiplied in long passes."""
    xp = array_namespace(features[0])
    return xp.permute_dims(xp.stack(features), (1, 0, 2))


def take_people(stacked: Array, people: Array) -> Array:
    """Select people from the result of `stack_features`, with the same layout."""
    xp = array_namespace(stacked)
    return xp.permute_dims(xp.take(xp.permute_dims(stacked, (1, 0, 2)), people, axis=1), (1, 0, 2))


def keep_freed_memory() -> None:
    """Let blocks of people reuse each other's memory instead of asking the system for it anew, which costs a page at a time.

    The C library gives back what exceeds twice the largest piece that was ever freed, learned up to 32 MiB. A fit's arrays
    are smaller than that, but there are many of them; freeing one such piece, never touched, teaches it.
    """
    never_touched = np.empty(2**25 - 2**13, dtype=np.uint8)
    del never_touched


CACHED = 2**18
"""Numbers that fit into the cache of a core."""


def split_people(values: Array, cells: int) -> list[slice]:
    """Split people (the first axis of `values`) into parts that fit into the cache, at `cells` numbers per participant.

    Without parts, passes over many variables wait for memory. Devices other than the processor take everybody at once.
    """
    people: int = values.shape[0]
    size = max(1, CACHED // max(cells, 1)) if isinstance(values, np.ndarray) else people
    if size >= people > 0:
        return [slice(0, people)]
    return [slice(first, first + size) for first in range(0, people, max(size, 1))]


def list_blocks(rows: int, size: int | None = None, *, cells: int = 1) -> Iterator[slice]:
    """Split rows into consecutive blocks, so that intermediate results are not held for all rows at once.

    Without a size, the block size follows from `BLOCK_ROWS`, `BLOCK_CELLS` and the number of cells per row.

    >>> list(list_blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = min(BLOCK_ROWS, max(1, BLOCK_CELLS // cells)) if size is None else size
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))


def sum_last(values: Array) -> Array:
    """Sum over a short last axis, such as actions, by repeated addition.

    NumPy's sum over a short axis takes ten times as long.
    """
    total = values[..., 0]
    for position in range(1, values.shape[-1]):
        total = total + values[..., position]
    return total


def boltzmann(logits: Array) -> Array:
    """Probabilities of the non-reference actions from their logits (…, k); the reference has logit zero.

    >>> boltzmann(np.array([0.0]))
    array([0.5])
    """
    xp = array_namespace(logits)
    if logits.shape[-1] == 1:
        # An exponential that overflows gives a probability of zero, as it should.
        with np.errstate(over="ignore"):
            odds = xp.exp(-logits)
        odds += 1.0
        return 1.0 / odds
    top = xp.zeros_like(logits[..., 0])
    for action in range(logits.shape[-1]):
        top = xp.maximum(top, logits[..., action])
    raised = xp.exp(logits - top[..., None])
    return raised / (xp.exp(-top) + sum_last(raised))[..., None]


def gram(features: Array, weights: Array) -> Array:
    """XᵀUX of every participant, (people, features, features)."""
    xp = array_namespace(features)
    people, rows, size = features.shape
    products = xp.empty((people, size, size), dtype=features.dtype, device=device(features))
    for part in split_people(features, rows * size):
        x = features[part]
        products[part] = xp.matmul(xp.matrix_transpose(x * weights[part][..., None]), x)
    return products


# Engines

ENGINES = ("numpy", "torch", "gpu")


@dataclass(frozen=True)
class Engine:
    """Moves arrays to the device of the computation, and back."""

    name: str
    to_device: Callable[[NDArray[Any]], Array] = np.asarray
    """A NumPy array as one of this engine's."""
    to_numpy: Callable[[Array], NDArray[Any]] = np.asarray
    """One of this engine's arrays as a NumPy array."""

    def repeatable(self, step: Callable[[], Any]) -> Callable[[], Any]:
        """A step that changes its arrays in place, ready to be repeated many times.

        On a GPU starting the kernels costs more than running them, so they are recorded once and replayed. Recording runs
        nothing: the step's arrays are as before.
        """
        if self.name != "gpu":
            return step
        import torch

        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
        replay: Callable[[], Any] = graph.replay
        return replay


NUMPY = Engine("numpy")


def find_engine(name: str) -> Engine:
    """The engine of that name, if this machine has it."""
    if name == "numpy":
        return NUMPY
    require_known("engine", name, ENGINES)
    try:
        import torch
    except ImportError:
        raise InputError(f"engine '{name}' needs PyTorch; install it with: pip install 'surefoot[gpu]'") from None
    if name == "gpu" and not torch.cuda.is_available():
        raise InputError("engine 'gpu' needs a CUDA device, and PyTorch sees none; use engine 'numpy'")
    to_device = partial(torch.asarray, device="cuda" if name == "gpu" else "cpu", copy=True)
    return Engine(name, to_device, lambda values: np.asarray(values.cpu()))
