"""The manifest of a fit: versions, parameters, hashes of what went in, counts and warnings; equal for equal input."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from typing import Any

import numpy as np

from surefoot.data.mean_weights import MeanWeights
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.study import Study
from surefoot.version import __version__

FORMAT = "surefoot-fit-1"


def hash_arrays(logs: Trajectories) -> list[dict[str, Any]]:
    """The entry for logs from memory that replaces those of input files."""
    digest = hashlib.sha256()
    identity = (logs.participants, logs.participant_index, logs.time)
    for array in (*identity, logs.state, logs.available, logs.action, logs.probability, logs.reward):
        digest.update(np.ascontiguousarray(array).tobytes())
    return [{"name": "arrays in memory", "sha256": digest.hexdigest()}]


def make_manifest(study: Study, inputs: list[dict[str, Any]], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """The manifest of a fit; fits with the same `key` have the same results."""
    import pyarrow as pa

    # As JSON reads it back, so that a manifest in memory equals the one in the file.
    parameters = json.loads(json.dumps(study.method().list_settings()))
    made_of = {
        "versions": {
            "surefoot": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "pyarrow": pa.__version__,
        },
        "study": {"sha256": hashlib.sha256(study.text.encode()).hexdigest()},
        "inputs": inputs,
        "method": {"name": study.method_name, "parameters": parameters},
    }
    key = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    total = _add_summaries(summaries)
    weights = total.pop("mean_weights")
    problem = None if weights is None else MeanWeights.from_dict(weights).problem()
    if problem is not None and study.method().centre_actions:
        raise InputError(problem)
    # What is wrong with the logged probabilities is only a warning: other fits do without them.
    total["warnings"] = list(dict.fromkeys(([] if problem is None else [problem]) + total["warnings"]))
    return {"format": FORMAT, "key": key, **made_of, "seeds": [], **total}


def _add_summaries(summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """The summaries of several parts as one."""
    counts = ("people", "decision_points", "available", "used", "removed")
    by_column: dict[str, Counter[str]] = {"missing": Counter(), "implausible": Counter(), "flagged": Counter()}
    for name, counter in by_column.items():
        for summary in summaries:
            counter.update(summary[name])
    ends = [summary["reward_range"] for summary in summaries if summary["reward_range"] is not None]
    weights = [
        MeanWeights.from_dict(summary["mean_weights"]) for summary in summaries if summary["mean_weights"] is not None
    ]
    return {
        **{name: sum(summary[name] for summary in summaries) for name in counts},
        **{name: dict(counter) for name, counter in by_column.items()},
        "reward_range": [min(end[0] for end in ends), max(end[1] for end in ends)] if ends else None,
        "mean_weights": sum(weights[1:], start=weights[0]).to_dict() if weights else None,
        # What holds of the whole data is said by every part.
        "warnings": list(dict.fromkeys(text for summary in summaries for text in summary["warnings"])),
    }
