"""Arrays with more rows than memory holds, by the array API standard: the solvers run on them as they are.

One axis of a `Streamed` array is long: its rows. The array itself is a recipe for any range of them, from columns in files.
What treats rows apart (arithmetic, choosing variables, products along other axes) makes another recipe. What adds up over
rows (sums, any, products along the rows) is one pass over blocks of rows. What needs them in order (sorting, cumulative
sums) holds one column at a time and writes the result to a file, as does picking rows by other rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from array_api_compat import numpy as standard
from numpy.lib.mixins import NDArrayOperatorsMixin
from numpy.typing import NDArray

from surefoot.numerics.parallel import map_threads
from surefoot.numerics.row_files import Block, Recipe, RowFile, expand_key

Function = TypeVar("Function", bound=Callable[..., Any])
BLOCK_ROWS = 2**14
"""Rows that are worked on at once; a column of them fits into a processor's cache."""
REDUCTIONS = {np.sum: np.add, np.any: np.logical_or, np.all: np.logical_and, np.max: np.maximum, np.min: np.minimum}
"""How the results of blocks are put together."""
BY_ROWS = {np.transpose, np.swapaxes, np.matrix_transpose, np.zeros_like, np.ones_like, np.full_like, np.empty_like}
"""Functions that treat every row apart, wherever the axis of rows is."""
ALONG_ROWS: dict[Any, Callable[..., Any]] = {}
"""NumPy's functions for which streamed arrays have one of their own."""


def _is_rows(values: Any) -> bool:
    return isinstance(values, Streamed)


class Streamed(NDArrayOperatorsMixin):
    """An array of which one axis, the rows, is long.

    >>> column = keep_rows(np.arange(100_000.0)[None])
    >>> float(np.sum(np.where(column > 5, column, 0.0))), np.sort(-column, axis=1)[:, 0]
    (4999949985.0, array([-99999.]))
    """

    device = "cpu"

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.shape, self.ndim, self.dtype = recipe.shape, len(recipe.shape), recipe.dtype
        self.rows = recipe.shape[recipe.axis]

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        return NAMESPACE

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """All rows, in memory."""
        found = np.empty(self.shape, dtype=self.dtype)
        along = np.moveaxis(found, self.recipe.axis, 0)
        for block, values in _read_blocks(self):
            along[block.start : block.stop] = np.moveaxis(values, self.recipe.axis, 0)
        return found if dtype is None else found.astype(dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options.get("out", (self,)) != (self,):
            return NotImplemented
        if ufunc is np.matmul:
            return _multiply(*inputs)
        found = map_rows(ufunc, *_align(inputs))
        if "out" in options:  # In place: those made from it before stay as they are.
            self.recipe = found.recipe
        return self if "out" in options else found

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        if function in ALONG_ROWS:
            return ALONG_ROWS[function](*args, **options)
        if function in REDUCTIONS or function in BY_ROWS:
            rest = args[1:]
            return map_rows(lambda part: function(part, *rest, **options), args[0], combine=REDUCTIONS.get(function))
        return NotImplemented

    def __getitem__(self, key: Any) -> Any:
        keys, place = expand_key(key, self.ndim, self.recipe.axis)
        along = keys[place]
        if isinstance(along, np.ndarray):
            return self.take(along)[(*keys[:place], np.arange(len(along)), *keys[place + 1 :])]
        if isinstance(along, int | np.integer):
            start = int(along) % self.rows
            return Block(start, start + 1).read(self.recipe)[(*keys[:place], 0, *keys[place + 1 :])]
        start, stop, _ = along.indices(self.rows)
        whole = (*keys[:place], slice(None), *keys[place + 1 :])
        if (start, stop) == (0, self.rows):
            return map_rows(lambda part: part[whole], self)
        if stop - start <= BLOCK_ROWS:
            return Block(start, stop).read(self.recipe)[whole]
        return _cut(self, start, stop)[whole]

    def __setitem__(self, key: Any, values: Any) -> None:
        """The array gets another recipe; those made from it before stay as they are."""
        keys, place = expand_key(key, self.ndim, self.recipe.axis)
        if isinstance(keys[place], np.ndarray):  # Rows here and there are written in memory.
            whole_array = np.asarray(self)
            whole_array[key] = values
            self.recipe = keep_rows(whole_array, _find_folder(self)).recipe
            return
        start, stop, _ = keys[place].indices(self.rows)
        whole, before = (*keys[:place], slice(None), *keys[place + 1 :]), self.recipe
        two, three = (_try_rows(self, count)[whole].shape for count in (2, 3))
        back = next(axis for axis in range(-len(two), 0) if two[axis] != three[axis])
        values = hold_rows(values, back) if _has_rows(values, back, stop - start) else values
        new = values.recipe if isinstance(values, Streamed) else None

        def write(block: Block) -> NDArray[Any]:
            found = np.array(block.read(before))
            first, last = max(block.start, start), min(block.stop, stop)
            if first < last:
                inside = np.moveaxis(found, before.axis, 0)[first - block.start : last - block.start]
                part = values if new is None else Block(first - start, last - start, block.known).read(new)
                np.moveaxis(inside, 0, before.axis)[whole] = part
            return found

        self.recipe = Recipe(before.shape, before.axis, before.dtype, write, _find_folder(self, values))

    def astype(self, dtype: Any, copy: bool = True) -> Streamed:
        return cast(Streamed, map_rows(lambda part: part.astype(dtype, copy=False), self))

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """Some rows, in memory, along the axis of rows."""
        found = np.empty((len(rows), *np.delete(self.shape, self.recipe.axis)), dtype=self.dtype)
        for block, chosen in _split_by_block(rows, self.rows):
            part = np.moveaxis(block.read(self.recipe), self.recipe.axis, 0)
            found[chosen] = part[rows[chosen] - block.start]
        return np.moveaxis(found, 0, self.recipe.axis)


def list_blocks(rows: int) -> Iterator[Block]:
    """All rows, a block after the other."""
    return (Block(start, min(start + BLOCK_ROWS, rows)) for start in range(0, rows, BLOCK_ROWS))


def _split_by_block(places: NDArray[np.int64], rows: int) -> Iterator[tuple[Block, NDArray[np.bool_]]]:
    """The blocks in which some places lie, and which of the places do."""
    number = places // BLOCK_ROWS
    for one in np.unique(number).tolist():
        yield Block(one * BLOCK_ROWS, min((one + 1) * BLOCK_ROWS, rows)), number == one


def _read_blocks(values: Streamed) -> Iterator[tuple[Block, NDArray[Any]]]:
    """Every block with its part, made by several threads."""
    return map_threads(lambda block: (block, block.read(values.recipe)), list_blocks(values.rows))


def _find_folder(*values: Any) -> Path | None:
    return next((one.recipe.folder for one in values if isinstance(one, Streamed) and one.recipe.folder), None)


def map_rows(function: Callable[..., Any], *values: Any, combine: Callable[..., Any] | None = None) -> Any:
    """What a function makes of some arrays, block of rows by block: another array of as many rows or, where it puts rows
    together and `combine` tells how results of blocks are joined, an array in memory.

    What becomes of the axes is found by trying the function on two and on three rows.
    """
    recipes = [one.recipe if isinstance(one, Streamed) else None for one in values]
    (rows,) = {one.rows for one in values if isinstance(one, Streamed)}
    with np.errstate(all="ignore"):
        two, three = (np.asarray(function(*(_try_rows(one, count) for one in values))) for count in (2, 3))

    def read(block: Block) -> NDArray[Any]:
        parts = (one if made is None else block.read(made) for one, made in zip(values, recipes, strict=True))
        return np.asarray(function(*parts))

    if two.shape != three.shape:
        (axis,) = (axis for axis, sizes in enumerate(zip(two.shape, three.shape, strict=True)) if sizes == (2, 3))
        shape = (*two.shape[:axis], rows, *two.shape[axis + 1 :])
        return Streamed(Recipe(shape, axis, two.dtype, read, _find_folder(*values)))
    if combine is None:
        raise TypeError("this needs all rows at once, which are not in memory")
    parts = map_threads(read, list_blocks(rows))
    total = next(parts)
    for part in parts:
        total = combine(total, part)
    return np.asarray(total)


def by_rows(function: Function) -> Function:
    """Mark a function that treats every row apart: of streamed arrays, as positional arguments, it makes one recipe instead
    of one for each of its steps."""

    @wraps(function)
    def apply(*values: Any, **options: Any) -> Any:
        if not any(map(_is_rows, values)):
            return function(*values, **options)
        return map_rows(lambda *parts: function(*parts, **options), *values)

    return cast(Function, apply)


def _try_rows(values: Any, count: int) -> Any:
    """A few rows of ones, in place of an array."""
    if not isinstance(values, Streamed):
        return values
    axis = values.recipe.axis
    return np.ones((*values.shape[:axis], count, *values.shape[axis + 1 :]), dtype=values.dtype)


def _align(values: Sequence[Any]) -> list[Any]:
    """For functions of elements: arrays in memory that have all rows are read by blocks, too."""
    one = next(filter(_is_rows, values))
    back = one.recipe.axis - one.ndim
    return [hold_rows(value, back) if _has_rows(value, back, one.rows) else value for value in values]


def _has_rows(values: Any, back: int, rows: int) -> bool:
    return isinstance(values, np.ndarray) and values.ndim >= -back and values.shape[back] == rows > 1


def _multiply(left: Any, right: Any) -> Any:
    """The matrix product; along the rows it is a sum over blocks."""
    if _is_rows(left) and left.recipe.axis == left.ndim - 1 and _has_rows(right, -2, left.rows):
        right = hold_rows(right, -2)
    elif _is_rows(right) and right.recipe.axis == right.ndim - 2 and _has_rows(left, -1, right.rows):
        left = hold_rows(left, -1)
    return map_rows(np.matmul, left, right, combine=np.add)


def _cut(values: Streamed, start: int, stop: int) -> Streamed:
    """A range of rows."""
    made = values.recipe
    shape = (*made.shape[: made.axis], stop - start, *made.shape[made.axis + 1 :])
    return Streamed(Recipe(shape, made.axis, made.dtype, lambda block: block.shift(start).read(made), made.folder))


def hold_rows(values: NDArray[Any], axis: int) -> Streamed:
    """An array in memory as one that is read by blocks of rows along an axis."""
    before = (slice(None),) * (axis % values.ndim)
    made = Recipe(values.shape, len(before), values.dtype, lambda block: values[(*before, block.range)], None)
    return Streamed(made)


def keep_rows(values: Any, folder: Path | None = None) -> Streamed:
    """The same values, rows last, from a file: what took long to make is not made again in every pass."""
    held = values if isinstance(values, Streamed) else hold_rows(values, -1)
    leading = held.shape[:-1]
    file = RowFile(int(np.prod(leading)), held.rows, held.dtype, folder or held.recipe.folder)
    for block, part in _read_blocks(held):
        file.open("r+")[:, block.range] = part.reshape(file.shape[0], -1)
    return Streamed(file.to_recipe(leading))


def _change_columns(values: Streamed, change: Callable[[NDArray[Any]], NDArray[Any]], axis: int | None = None) -> Streamed:
    """What a function makes of each column as a whole, one in memory at a time; rows are last."""
    if values.recipe.axis != values.ndim - 1 or axis not in (None, -1, values.ndim - 1):
        raise TypeError("rows that are not in memory are ordered along the last axis")
    leading = values.shape[:-1]
    file = RowFile(int(np.prod(leading)), values.rows, change(np.ones(2, values.dtype)).dtype, values.recipe.folder)
    for number, place in enumerate(np.ndindex(*leading)):
        file.open("r+")[number] = change(np.asarray(values[place]))
    return Streamed(file.to_recipe(leading))


def _for_rows(function: Any) -> Callable[[Function], Function]:
    """What takes the place of one of NumPy's functions."""

    def register(own: Function) -> Function:
        ALONG_ROWS[function] = own
        return own

    return register


@_for_rows(np.where)
def _where(*values: Any) -> Any:
    return map_rows(np.where, *_align(values))


@_for_rows(np.stack)
def _stack(arrays: Sequence[Any], axis: int = 0) -> Any:
    return map_rows(lambda *parts: np.stack(parts, axis=axis), *arrays)


@_for_rows(np.partition)
def _partition(values: Streamed, places: Any, axis: int = -1) -> Streamed:
    def change(column: NDArray[Any]) -> NDArray[Any]:
        column.sort() if places is None else column.partition(places if len(column) > max(places) else 0)
        return column

    return _change_columns(values, change, axis)


@_for_rows(np.sort)
def _sort(values: Streamed, axis: int = -1, **kind: Any) -> Streamed:
    return _partition(values, None, axis)


@_for_rows(np.argsort)
def _argsort(values: Streamed, axis: int = -1, **kind: Any) -> Streamed:
    return _change_columns(values, lambda column: np.argsort(column, kind="stable"), axis)


@_for_rows(np.cumsum)
def _cumsum(values: Streamed, axis: int | None = None, **options: Any) -> Streamed:
    return _change_columns(values, np.cumsum, axis)


@_for_rows(np.argmax)
def _argmax(values: Streamed, axis: int = -1, **options: Any) -> NDArray[np.int64]:
    highest = np.max(values, axis=axis, keepdims=True)
    places = _where(values == highest, NAMESPACE.arange(values.rows), values.rows)
    return np.asarray(np.min(places, axis=axis))


@_for_rows(np.nonzero)
def _nonzero(values: Streamed) -> tuple[NDArray[np.int64], ...]:
    """Row after row; of one participant that is NumPy's order."""
    parts: list[Any] = [(block.start, *np.nonzero(part)) for block, part in _read_blocks(values)]
    found = [np.concatenate([one[axis + 1] for one in parts]) for axis in range(values.ndim)]
    found[values.recipe.axis] += np.repeat([one[0] for one in parts], [len(one[1]) for one in parts])
    return tuple(found)


@_for_rows(np.reshape)
def _reshape(values: Streamed, shape: Sequence[int], **options: Any) -> Streamed:
    leading = np.empty(values.shape[:-1]).reshape(shape[:-1]).shape
    if values.recipe.axis != values.ndim - 1 or shape[-1] not in (-1, values.rows):
        raise TypeError("the axis of rows that are not in memory stays the last")
    return cast(Streamed, map_rows(lambda part: part.reshape(*leading, part.shape[-1]), values))


@_for_rows(np.take)
def _take(values: Any, places: Any, axis: int | None = None, **options: Any) -> Any:
    if isinstance(places, Streamed):
        return _take_along_axis(values, places)
    axis = -1 if axis is None else axis
    if axis % values.ndim == values.recipe.axis:
        return values.take(places)
    return map_rows(lambda part: np.take(part, places, axis), values)


@_for_rows(np.take_along_axis)
def _take_along_axis(values: Any, places: Any, axis: int = -1) -> Any:
    """By places in memory, or by as many of them as there are rows; rows are last."""

    def pick(wanted: NDArray[np.int64]) -> NDArray[Any]:
        if not isinstance(values, Streamed):
            return np.take_along_axis(values, wanted, axis=-1)
        wanted = np.broadcast_to(wanted, (*values.shape[:-1], wanted.shape[-1]))
        found = np.empty(wanted.shape, dtype=values.dtype)
        for block, here in _split_by_block(wanted, values.rows):
            inside = np.where(here, wanted - block.start, 0)
            found = np.where(here, np.take_along_axis(block.read(values.recipe), inside, axis=-1), found)
        return found

    if not isinstance(places, Streamed):
        return pick(places)
    return keep_rows(map_rows(pick, places), _find_folder(places, values))


@_for_rows(np.concatenate)
def _concatenate(arrays: Sequence[Any], axis: int = 0) -> Any:
    one = next(filter(_is_rows, arrays))
    if axis % one.ndim != one.recipe.axis:
        return map_rows(lambda *parts: np.concatenate(parts, axis=axis), *arrays)
    ends = np.cumsum([part.shape[axis] for part in arrays]).tolist()
    joined = NAMESPACE.zeros((*one.shape[: one.recipe.axis], ends[-1]), dtype=one.dtype)
    for part, end in zip(arrays, ends, strict=True):
        joined[..., end - part.shape[axis] : end] = part
    return joined


class _Namespace:
    """The standard's functions, which find those above by themselves, and makers of arrays that do not make many rows."""

    def __getattr__(self, name: str) -> Any:
        return getattr(standard, name)

    def full(self, shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        if np.ndim(shape) == 0 or max(shape, default=0) <= BLOCK_ROWS:
            return np.full(shape, fill_value, dtype=dtype)
        axis, kind = int(np.argmax(shape)), np.dtype(dtype or np.result_type(fill_value))

        def make(block: Block) -> NDArray[Any]:
            return np.full((*shape[:axis], block.stop - block.start, *shape[axis + 1 :]), fill_value, dtype=kind)

        return Streamed(Recipe(tuple(shape), axis, kind, make, None))

    def zeros(self, shape: Any, *, dtype: Any = np.float64, device: Any = None) -> Any:
        return self.full(shape, 0, dtype=dtype)

    empty = zeros

    def arange(self, stop: int, *, dtype: Any = np.int64, device: Any = None) -> Any:
        if stop <= BLOCK_ROWS:
            return np.arange(stop, dtype=dtype)
        made = Recipe((stop,), 0, np.dtype(dtype), lambda block: np.arange(block.start, block.stop, dtype=dtype), None)
        return Streamed(made)


NAMESPACE = _Namespace()
