"""Policies: probabilities of every action for people in states, samples of them, files of them, and constant policies."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite, prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from surefoot.atomic_files import atomic_write
from surefoot.data.file_formats import open_parquet, read_parquet
from surefoot.data.frames import find_positions, match_columns
from surefoot.data.locations import Location, list_parquet, locate
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.numerics.arrays import list_blocks
from surefoot.policies.rules import RULES, DecisionRule, Fixed
from surefoot.reports.summaries import Overview, Shown
from surefoot.version import __version__

FORMAT = "surefoot-policies-1"


@dataclass(frozen=True, eq=False)
class KnownTraining:
    """Whose decision points, and when.

    >>> logs = Trajectories.from_arrays(np.zeros((2, 3, 1)), np.zeros((2, 3)), np.zeros((2, 3)), participants=["ann", "bo"])
    >>> KnownTraining.of_logs(logs).count_shared(logs)
    (6, 2)
    """

    participants: NDArray[Any]
    """Ids, sorted."""
    participant_index: NDArray[np.int64]
    """Of every decision point."""
    time: NDArray[Any]
    order: NDArray[np.int64]
    """Rows sorted by participant, then time."""

    @classmethod
    def of_logs(cls, logs: Trajectories) -> "KnownTraining":
        return cls(logs.participants, logs.participant_index, logs.time, logs.order)

    @cached_property
    def fingerprint(self) -> str:
        """The sum over people of the SHA-256 of their id and times: the fingerprints of different people add up."""
        ends = np.cumsum(np.bincount(self.participant_index, minlength=len(self.participants)))
        times = np.split(self.time[self.order], ends[:-1])
        people = zip(self.participants.tolist(), times, strict=True)
        return add_fingerprints(hashlib.sha256(f"{id_}\0".encode() + time.tobytes()).hexdigest() for id_, time in people)

    def count_shared(self, logs: Trajectories) -> tuple[int, int]:
        """How many decision points of the logs, and of how many of their people, it was learned from."""
        if self.participants.dtype.kind != logs.participants.dtype.kind:
            return 0, 0
        position = np.searchsorted(self.participants, logs.participants).clip(max=len(self.participants) - 1)
        shared = self.participants[position] == logs.participants
        if self.time.dtype.kind != logs.time.dtype.kind:
            return 0, int(shared.sum())
        times, moment = np.unique(np.concatenate([logs.time, self.time]), return_inverse=True)
        person = np.append(np.where(shared, position, -1)[logs.participant_index], self.participant_index)
        pairs = person * len(times) + moment
        return int(np.isin(pairs[: len(logs)], pairs[len(logs) :]).sum()), int(shared.sum())


@dataclass(frozen=True, eq=False)
class FiledTraining:
    """What a file of policies holds: a fingerprint that recognises the same decision points, and no ids."""

    fingerprint: str

    def count_shared(self, logs: Trajectories) -> tuple[int, int]:
        """All decision points and people of the logs, or none."""
        same = KnownTraining.of_logs(logs).fingerprint == self.fingerprint
        return (len(logs), len(logs.participants)) if same else (0, 0)


def add_fingerprints(fingerprints: Iterable[str]) -> str:
    """The fingerprint of all people together from those of some of them each."""
    return f"{sum(int(fingerprint, 16) for fingerprint in fingerprints) % 2**256:064x}"


Training = KnownTraining | FiledTraining


@dataclass(frozen=True, eq=False, repr=False)
class Policy(Shown):
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

    machinery = Shown.machinery | {"rules_for"}
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


@dataclass(frozen=True, eq=False, repr=False)
class Policies(Shown):
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
    machinery = Shown.machinery | {"anybody", "covers", "made_for", "rules_for", "training", "with_anybody"}

    def _overview(self) -> Overview:
        people = "anybody" if self.participants is None else f"{len(self.participants):,} people"
        facts = {
            "actions": ", ".join(self.action_names),
            "state": ", ".join(self.state_names),
            "newcomers": "have a policy" if self.serves_anybody else "have none",
        }
        return Overview(f"Policies of {people}: {self.rule.name}", facts)

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
        if self.participants is None or self.anybody is not None:
            return np.ones(np.shape(participants), dtype=bool)
        return np.isin(participants, self.participants)

    def with_anybody(self, rule: DecisionRule, *, instead_of: NDArray[np.bool_]) -> "Policies":
        """The same policies and one for anybody else, which some of the participants get too."""
        served = replace(self, anybody=rule)
        return replace(served, rule=served._rules[np.where(instead_of, len(self), np.arange(len(self)))])

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

    def _header(self) -> dict[str, Any]:
        """What a file says of them, without the arrays of participants."""
        header = {
            "format": FORMAT,
            "surefoot": __version__,
            "kind": self.rule.name,
            "pooled": self.participants is None,
            "states": list(self.state_names),
            "actions": list(self.action_names),
            "made_for": self.made_for,
            "training": None if self.training is None else self.training.fingerprint,
            "shapes": {name: list(values.shape[1:]) for name, values in self.rule.arrays().items()},
        }
        if self.anybody is not None:
            header["anybody"] = {name: values.tolist() for name, values in self.anybody.arrays().items()}
        return header

    def _columns(self) -> dict[str, Any]:
        """Whose rules they are, and the numbers of every rule in one row for each array."""
        participants = ["everyone"] if self.participants is None else self.participants.tolist()
        flat = {name: values.reshape(len(self), -1) for name, values in self.rule.arrays().items()}
        return {"participants": participants, **flat}

    def to_dict(self) -> dict[str, Any]:
        """The content of a `.json` file of them; `from_dict` gives the same numbers to the last bit."""
        columns = {name: values if isinstance(values, list) else values.tolist() for name, values in self._columns().items()}
        return {**self._header(), **columns}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "Policies":
        """The inverse of `to_dict`; a `ValueError`, `KeyError` or `TypeError` where the content is not one of policies."""
        if content.get("format") != FORMAT:
            raise ValueError(f"its format is {content.get('format')!r}, not {FORMAT!r}")
        participants = np.asarray(content["participants"])

        def read_rule(numbers: Mapping[str, Any], *batch: int) -> DecisionRule:
            shapes = {name: (*batch, *shape) for name, shape in content["shapes"].items()}
            arrays = {name: np.asarray(numbers[name], dtype=np.float64) for name in shapes}
            if any(values.size != prod(shapes[name]) or not np.isfinite(values).all() for name, values in arrays.items()):
                raise ValueError("its numbers are not complete and finite")
            return RULES.find(content["kind"])(**{name: values.reshape(shapes[name]) for name, values in arrays.items()})

        return cls(
            participants=None if content["pooled"] else participants,
            rule=read_rule(content, len(participants)),
            action_names=tuple(content["actions"]),
            state_names=tuple(content["states"]),
            made_for=content.get("made_for"),
            training=FiledTraining(content["training"]) if content.get("training") else None,
            anybody=read_rule(content["anybody"]) if content.get("anybody") else None,
        )

    def save(self, path: str | Path) -> None:
        """Write to a `.json` or `.parquet` file, whole or not at all; `load` gives the same numbers to the last bit."""
        path = Path(path)
        if path.suffix == ".json":
            with atomic_write(path) as temporary:
                temporary.write_text(json.dumps(self.to_dict(), allow_nan=False) + "\n", encoding="utf-8")
        elif path.suffix == ".parquet":
            import pyarrow as pa
            from pyarrow import parquet

            participants, *arrays = self._columns().items()
            lists = {name: pa.FixedSizeListArray.from_arrays(rows.ravel(), rows.shape[1]) for name, rows in arrays}
            table = pa.table({"participant": participants[1], **lists})
            with atomic_write(path) as temporary:
                parquet.write_table(table.replace_schema_metadata({"surefoot": json.dumps(self._header())}), temporary)
        else:
            raise InputError(f"{path}: policies are saved as .json or .parquet")


def load(path: str | Location) -> Policies:
    """Read policies from a file that `Policies.save` wrote.

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
        is_text = path.suffix == ".json"
        return Policies.from_dict(json.loads(path.read_text(encoding="utf-8")) if is_text else _read_parquet(path))
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as error:
        raise InputError(f"{path}: not a file of policies ({error}); write one with policies.save") from error


def _read_parquet(path: Location) -> dict[str, Any]:
    """The content of a file or folder, as `to_dict` has it."""
    files = list_parquet(path) if path.is_dir() else [path]
    headers = [json.loads((open_parquet(file).schema_arrow.metadata or {})[b"surefoot"]) for file in files]
    fingerprints = [header["training"] for header in headers]
    training = None if None in fingerprints else add_fingerprints(fingerprints)
    table = read_parquet(path)
    table = table.sort_by("participant") if path.is_dir() else table
    columns = {name: table[name].combine_chunks().flatten().to_numpy() for name in headers[0]["shapes"]}
    return {**headers[0], "training": training, **columns, "participants": table["participant"].to_pylist()}


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
    return probabilities if free.all() else np.where(free[:, None], probabilities, np.eye(probabilities.shape[-1])[0])


def _draw(probabilities: NDArray[np.float64], rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    edges = np.cumsum(probabilities, axis=1)[:, :-1]
    actions = (rng.random(len(probabilities))[:, None] >= edges).sum(axis=1)
    return actions, np.take_along_axis(probabilities, actions[:, None], axis=1)[:, 0]


def coin(actions: int) -> Policy:
    """Every action with the same probability.

    Parameters
    ----------
    actions
        The number of actions, including nothing.

    Returns
    -------
    Policy

    Examples
    --------
    >>> coin(2).probabilities([[0.0]])
    array([[0.5, 0.5]])
    """
    return fixed([1 / actions] * actions)


def never(actions: int) -> Policy:
    """Always action 0: send nothing.

    Parameters
    ----------
    actions
        The number of actions, including nothing.

    Returns
    -------
    Policy

    Examples
    --------
    >>> never(2).probabilities([[0.0]])
    array([[1., 0.]])
    """
    return fixed([1.0] + [0.0] * (actions - 1))


def always(actions: int) -> Policy:
    """Never action 0: one of the others, each with the same probability.

    Parameters
    ----------
    actions
        The number of actions, including nothing.

    Returns
    -------
    Policy

    Examples
    --------
    >>> always(3).probabilities([[0.0]])
    array([[0. , 0.5, 0.5]])
    """
    return fixed([0.0] + [1 / (actions - 1)] * (actions - 1))


def baselines(action_names: Sequence[str]) -> dict[str, Policy]:
    """The same action at every decision point: `never` any, and `always`, or `always walk` where there are several to send.

    >>> list(baselines(["nothing", "walk", "stretch"]))
    ['never', 'always walk', 'always stretch']
    """
    two = len(action_names) == 2
    names = ["never", *("always" if two else f"always {name}" for name in action_names[1:])]
    return {
        name: replace(fixed(row), action_names=tuple(action_names))
        for name, row in zip(names, np.eye(len(action_names)), strict=True)
    }


def fixed(probabilities: ArrayLike) -> Policy:
    """The given probabilities, whatever the state.

    Parameters
    ----------
    probabilities
        Of every action, nothing first.

    Returns
    -------
    Policy

    Examples
    --------
    >>> fixed([0.7, 0.3]).probabilities([[0.0]])
    array([[0.7, 0.3]])
    """
    values = np.asarray(probabilities, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or not (values >= 0).all() or abs(values.sum() - 1) > 1e-9:
        raise InputError(f"probabilities must be at least two numbers of at least 0 that sum to 1; got {values.tolist()}")
    return Policy(Fixed(values), tuple(str(code) for code in range(len(values))))
