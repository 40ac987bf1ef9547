"""Data frames of pandas, polars and Arrow, in and out."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from surefoot.data.file_formats import choose_columns
from surefoot.data.log_columns import whole_array
from surefoot.errors import InputError


def arrow_table(frame: Any, names: list[str], also: str | None = None) -> tuple[pa.Table, str]:
    """The named columns of a pandas, polars or Arrow frame as an Arrow table, and the name of the frame's library.

    Further columns whose names the pattern `also` finds come with them, unless they mix types.
    """
    import narwhals as nw

    try:
        table = nw.from_native(frame, eager_only=True)
    except TypeError as error:
        raise InputError(
            f"expected a pandas, polars or Arrow table, got {type(frame).__name__}; collect it first if it is lazy"
        ) from error
    columns = choose_columns(None, [str(name) for name in table.columns], names, also)
    if len(table) == 0:
        raise InputError("the table has no rows; give it at least one decision point")
    arrays: dict[str, pa.Array] = {}
    for name in columns:
        try:
            arrays[name] = whole_array(table.select(name).to_arrow().column(0))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            if name in names:
                raise InputError(
                    f"column '{name}' mixes types ({error.args[0]}); convert it to one type", column=name
                ) from error
    return pa.table(arrays), str(table.implementation)


def make_frame(data: dict[str, Any], backend: str | None) -> Any:
    """A frame of pandas, or of the given library (polars, pyarrow), from columns; NaN in numbers becomes missing."""
    import narwhals as nw

    backend = backend or "pandas"
    # Through Arrow, so that every library receives the same types.
    table = pa.table({name: pa.array(values, from_pandas=True) for name, values in data.items()})
    frame = nw.from_native(table, eager_only=True)
    if backend == "pyarrow":
        return table
    try:
        return {"pandas": frame.to_pandas, "polars": frame.to_polars}[backend]()
    except KeyError:
        raise InputError(f"no frames of '{backend}'; choose pandas, polars or pyarrow") from None
    except ModuleNotFoundError:
        raise InputError(
            f"frames of '{backend}' need {backend}; install it with: pip install {backend}, or ask for 'pyarrow'"
        ) from None


def match_columns(values: Any, names: tuple[str, ...]) -> NDArray[Any]:
    """The columns of a frame of pandas, polars or Arrow in the order of the names; whatever has no columns stays as it is.

    >>> import pyarrow as pa
    >>> match_columns(pa.table({"b": [2.0], "a": [1.0]}), ("a", "b"))
    array([[1., 2.]])
    """
    if not (hasattr(values, "columns") and hasattr(values, "shape")):
        return np.asarray(values)
    import narwhals as nw

    table = nw.from_native(values, eager_only=True)
    given = [str(name) for name in table.columns]
    choose_columns(None, given, names)
    extra = [name for name in given if name not in names]
    if extra:
        raise InputError(
            f"column '{extra[0]}' is not a state variable; give the columns {list(names)} only", column=extra[0]
        )
    return np.asarray(table.select(list(names)).to_numpy())


def csv_text(table: Any) -> str:
    """An Arrow table as CSV."""
    from pyarrow import csv

    buffer = io.BytesIO()
    csv.write_csv(table, buffer)
    return buffer.getvalue().decode()


def find_positions(participants: NDArray[Any], wanted: ArrayLike) -> NDArray[np.int64]:
    """The position of each wanted id among the sorted `participants`; an unknown id is refused."""
    ids = np.asarray(wanted)
    # A series of pandas holds text as objects.
    ids = np.asarray(ids.tolist()) if ids.dtype == object else ids
    text = participants.dtype.kind == "U"
    if ids.dtype.kind != participants.dtype.kind and not (ids.dtype.kind in "iu" and not text):
        expected, given = ("text", "whole numbers") if text else ("whole numbers", "text or something else")
        raise InputError(f"the ids of participants are {expected} here, not {given}; got {ids.ravel()[0].item()!r}")
    positions = np.minimum(np.searchsorted(participants, ids), len(participants) - 1)
    unknown = np.flatnonzero(participants[positions] != ids)
    if unknown.size:
        row = int(unknown[0])
        participant = ids.ravel()[row].item()
        raise InputError(
            f"row {row}: unknown participant {participant!r}; correct the id, or fit again with this participant",
            row=row,
            column="participant",
            participant=participant,
        )
    return positions.astype(np.int64)
