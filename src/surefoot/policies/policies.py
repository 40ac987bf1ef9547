"""Policies: what decides. Probabilities of every action for people in states, samples of them, and their files."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.atomic_files import atomic_write, write_texts
from surefoot.data.file_formats import open_parquet, read_parquet
from surefoot.data.frames import find_positions, match_columns
from surefoot.data.locations import Location, list_parquet, locate
from surefoot.errors import InputError
from surefoot.numerics.arrays import list_blocks
from surefoot.policies.rules import DecisionRule, find_rule
from surefoot.policies.training import FiledTraining, Training, add_fingerprints
from surefoot.version import __version__

FORMAT = "surefoot-policies-1"


@dataclass(frozen=True, eq=False)
class Policy:
    """One decision rule, for any participant.

    Attributes
    ----------
    rule
        With an empty batch shape.
    action_names
        One name for every action, nothing first.
    state_names
        None: the policy does not look at the state.

    Examples
    --------
    >>> import surefoot as sf
    >>> sf.policies.coin(2).probabilities([[0.3], [1.2]], available=[True, False])
    array([[0.5, 0.5],
           [1. , 0. ]])
    """

    rule: DecisionRule
    action_names: tuple[str, ...]
    state_names: tuple[str, ...] | None = None

    def probabilities(self, states: ArrayLike, available: ArrayLike | None = None) -> NDArray[np.float64]:
        """(n, actions) for states (n, variables); who is not available gets action 0 with probability 1."""
        checked, free = _check_states(states, available, self.state_names)
        return _where_available(self.rule.probabilities(checked), free)

    def decide(self, state: Sequence[float]) -> list[float]:
        """Probabilities of the actions for one available participant in one state, quickly.

        >>> import surefoot as sf
        >>> sf.policies.never(2).decide([0.3])
        [1.0, 0.0]
        """
        if (self.state_names is not None and len(state) != len(self.state_names)) or not isfinite(sum(state)):
            _check_states([state], None, self.state_names)
        return self._scalar(state)

    @cached_property
    def _scalar(self) -> Callable[[Sequence[float]], list[float]]:
        return self.rule.scalar()

    def sample(
        self, states: ArrayLike, available: ArrayLike | None = None, *, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Actions (n,) and the probabilities with which they were drawn."""
        return _draw(self.probabilities(states, available), rng)

    def rules_for(self, participants: NDArray[Any]) -> DecisionRule:
        """The same rule for every participant."""
        return self.rule.repeat(len(participants))


@dataclass(frozen=True, eq=False)
class Policies:
    """One decision rule per participant, or one for everybody.

    Attributes
    ----------
    participants
        Ids, sorted; None when the one rule is for anybody.
    rule
        With batch shape (people,); (1,) when it is for anybody.
    action_names
        One name for every action, nothing first.
    state_names
        The state variables, in the order in which `probabilities` takes them.
    made_for
        The study's hash and how it reads states (kinds, levels, scaling, limits); None for policies made without a
        study.
    training
        Which decision points they were learned from; None if not known.
    anybody
        For people who are not among the participants, with an empty batch shape; None: they have no policy.
    """

    participants: NDArray[Any] | None
    rule: DecisionRule
    action_names: tuple[str, ...]
    state_names: tuple[str, ...]
    made_for: dict[str, Any] | None = None
    training: Training | None = None
    anybody: DecisionRule | None = None

    def __len__(self) -> int:
        return self.rule.batch[0]

    def __getitem__(self, participant: Any) -> Policy:
        """The policy of one participant."""
        return Policy(self.rules_for(np.asarray([participant]))[0], self.action_names, self.state_names)

    @property
    def serves_anybody(self) -> bool:
        """Whether there is a policy for people who are not among the participants."""
        return self.participants is None or self.anybody is not None

    def covers(self, participants: ArrayLike) -> NDArray[np.bool_]:
        """For whom there is a policy."""
        wanted = np.asarray(participants)
        if self.participants is None or self.anybody is not None:
            return np.ones(wanted.shape, dtype=bool)
        return np.isin(wanted, self.participants)

    def with_anybody(self, rule: DecisionRule, *, instead_of: NDArray[np.bool_]) -> Policies:
        """The same policies and one for anybody else, which some of the participants get too."""

        def mix(arrays: list[NDArray[np.float64]]) -> NDArray[np.float64]:
            personal, shared = arrays
            return np.where(instead_of.reshape(-1, *[1] * (personal.ndim - 1)), shared, personal)

        return replace(self, rule=self.rule.join([self.rule, rule], mix), anybody=rule)

    @cached_property
    def _rules(self) -> DecisionRule:
        """Everybody's and, last, that for anybody else."""
        if self.anybody is None:
            return self.rule
        return self.rule.join([self.rule, self.anybody.repeat(1)], np.concatenate)

    def _rows(self, participants: ArrayLike) -> NDArray[np.int64]:
        if self.participants is None:
            return np.zeros(np.shape(participants), dtype=np.int64)
        if self.anybody is None:
            return find_positions(self.participants, participants)
        wanted = np.asarray(participants)
        known = np.isin(wanted, self.participants)
        rows = np.full(wanted.shape, len(self.participants))
        rows[known] = find_positions(self.participants, wanted[known])
        return rows

    def probabilities(
        self, participants: ArrayLike, states: ArrayLike, available: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """(n, actions) for n pairs of a participant and a state; who is not available gets action 0 with probability 1.

        States are an array in the order of `state_names`, or a data frame, whose columns are matched by name.
        """
        people = self._rows(participants)
        checked, free = _check_states(states, available, self.state_names)
        if people.shape != checked.shape[:1]:
            raise InputError(f"{people.size} participants but {len(checked)} states; give one state per participant")
        rules = self._rules
        chances = np.empty((len(people), len(self.action_names)))
        for block in list_blocks(len(people), cells=rules.cells):
            chances[block] = rules[people[block]].probabilities(checked[block])
        return _where_available(chances, free)

    def sample(
        self, participants: ArrayLike, states: ArrayLike, available: ArrayLike | None = None, *, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Actions (n,) and the probabilities with which they were drawn."""
        return _draw(self.probabilities(participants, states, available), rng)

    def rules_for(self, participants: NDArray[Any]) -> DecisionRule:
        """The rules of the given people, in their order."""
        return self._rules[self._rows(participants)]

    def save(self, path: str | Path) -> None:
        """Write to a `.json` or `.parquet` file, whole or not at all; `load` gives the same numbers to the last bit."""
        path = Path(path)
        header = {
            "format": FORMAT,
            "surefoot": __version__,
            "kind": self.rule.name,
            "pooled": self.participants is None,
            "states": list(self.state_names),
            "actions": list(self.action_names),
            "made_for": self.made_for,
            "training": None if self.training is None else self.training.fingerprint,
            "shapes": {name: values.shape[1:] for name, values in self.rule.arrays().items()},
        }
        if self.anybody is not None:
            header["anybody"] = {name: values.tolist() for name, values in self.anybody.arrays().items()}
        participants = np.asarray(["everyone"]) if self.participants is None else self.participants
        flat = {name: values.reshape(len(self), -1) for name, values in self.rule.arrays().items()}
        if path.suffix == ".json":
            columns = {"participants": participants.tolist(), **{name: values.tolist() for name, values in flat.items()}}
            write_texts({path: json.dumps({**header, **columns}, allow_nan=False) + "\n"})
        elif path.suffix == ".parquet":
            import pyarrow as pa
            from pyarrow import parquet

            lists = {
                name: pa.FixedSizeListArray.from_arrays(values.ravel(), values.shape[1]) for name, values in flat.items()
            }
            table = pa.table({"participant": participants.tolist(), **lists}).replace_schema_metadata(
                {"surefoot": json.dumps(header)}
            )
            with atomic_write(path) as temporary:
                parquet.write_table(table, temporary)
        else:
            raise InputError(f"{path}: policies are saved as .json or .parquet")


def load(path: str | Location) -> Policies:
    """Read what `Policies.save` wrote.

    Parameters
    ----------
    path
        A .json or a .parquet file, or a folder of Parquet files as a fit of many people writes; a path or a URL.

    Returns
    -------
    Policies

    Examples
    --------
    >>> import tempfile, pathlib, surefoot as sf
    >>> logs = sf.simulators.HeartSteps(participants=2).collect(sf.policies.coin(2), decision_points=30, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "policies.json"
    ...     sf.method("accb").fit(logs).policies_.save(path)
    ...     policies = load(path)
    >>> policies.participants, policies.state_names
    (array([0, 1]), ('weather', 'engagement', 'fatigue'))
    """
    path = locate(path)
    if path.suffix not in (".json", ".parquet"):
        raise InputError(f"{path}: policies are saved as .json or .parquet")
    if not path.exists():
        raise InputError(f"{path}: there is no such file; check the name and the folder")
    try:
        if path.suffix == ".json":
            header = columns = json.loads(path.read_text(encoding="utf-8"))
        else:
            header, columns = _read_parquet(path)
        if header.get("format") != FORMAT:
            raise ValueError(f"its format is {header.get('format')!r}, not {FORMAT!r}")
        arrays = {
            name: np.asarray(columns[name], dtype=np.float64).reshape(-1, *shape) for name, shape in header["shapes"].items()
        }
        participants = np.asarray(columns["participants"])
        if any(len(values) != len(participants) or not np.isfinite(values).all() for values in arrays.values()):
            raise ValueError("its numbers are not complete and finite")
        kind = find_rule(header["kind"])
        return Policies(
            participants=None if header["pooled"] else participants,
            rule=kind(**arrays),
            action_names=tuple(header["actions"]),
            state_names=tuple(header["states"]),
            made_for=header.get("made_for"),
            training=FiledTraining(header["training"]) if header.get("training") else None,
            anybody=None if header.get("anybody") is None else _read_anybody(header),
        )
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path}: not a file of policies ({error}); write one with policies.save") from error


def _read_anybody(header: dict[str, Any]) -> DecisionRule:
    arrays = {name: np.asarray(values, dtype=np.float64) for name, values in header["anybody"].items()}
    for name, shape in header["shapes"].items():
        if arrays[name].shape != tuple(shape) or not np.isfinite(arrays[name]).all():
            raise ValueError("its numbers are not complete and finite")
    return find_rule(header["kind"])(**arrays)


def _read_parquet(path: Location) -> tuple[dict[str, Any], dict[str, Any]]:
    if path.is_dir():
        table = read_parquet(path).sort_by("participant")
        schemas = [open_parquet(file).schema_arrow for file in list_parquet(path)]
        headers = [json.loads((schema.metadata or {})[b"surefoot"]) for schema in schemas]
        fingerprints = [header["training"] for header in headers]
        training = None if None in fingerprints else add_fingerprints(fingerprints)
        header = {**headers[0], "training": training}
    else:
        table = read_parquet(path)
        header = json.loads((table.schema.metadata or {})[b"surefoot"])
    columns = {name: table[name].combine_chunks().flatten().to_numpy() for name in header["shapes"]}
    return header, {**columns, "participants": table["participant"].to_pylist()}


def _check_states(
    states: ArrayLike, available: ArrayLike | None, names: tuple[str, ...] | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """States as (n, variables), complete where available (elsewhere zero), and the availability as booleans."""
    values = np.asarray(states if names is None else match_columns(states, names), dtype=np.float64)
    if values.ndim != 2 or (names is not None and values.shape[1] != len(names)):
        wanted = "variables" if names is None else f"{len(names)}: {', '.join(names)}"
        raise InputError(f"states have shape {values.shape}; give one row per decision, (n, {wanted})")
    free = np.ones(len(values), dtype=bool) if available is None else np.asarray(available)
    if free.shape != (len(values),) or not (free.dtype == bool or np.isin(free, (0, 1)).all()):
        raise InputError(f"available must be {len(values)} times yes or no")
    free = free.astype(bool)
    finite = np.isfinite(values)
    if names is not None and not finite.all():
        rows, places = np.nonzero(free[:, None] & ~finite)
        if rows.size:
            row = int(rows[0])
            name = names[places[0]]
            message = f"row {row}, state '{name}': {values[row, places[0]]}; a decision needs every state variable"
            raise InputError(message, row=row, column=name)
    return values if free.all() else np.where(free[:, None], values, 0.0), free


def _where_available(probabilities: NDArray[np.float64], free: NDArray[np.bool_]) -> NDArray[np.float64]:
    if free.all():
        return probabilities
    nothing = np.eye(probabilities.shape[-1])[0]
    return np.where(free[:, None], probabilities, nothing)


def _draw(probabilities: NDArray[np.float64], rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    edges = np.cumsum(probabilities, axis=1)[:, :-1]
    actions = (rng.random(len(probabilities))[:, None] >= edges).sum(axis=1)
    return actions, np.take_along_axis(probabilities, actions[:, None], axis=1)[:, 0]
