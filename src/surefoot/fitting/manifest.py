"""The manifest of a fit: versions, parameters, hashes of what went in, counts and warnings; equal for equal input."""

from __future__ import annotations

import hashlib
import json
import platform
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from surefoot.data import log_files
from surefoot.errors import InputError
from surefoot.study import Study, StudyLogs
from surefoot.version import __version__

FORMAT = "surefoot-fit-1"


def hashed(source: Path | StudyLogs) -> list[dict[str, Any]]:
    """Name, size and SHA-256 of every input file; of arrays when the logs came from memory."""
    if isinstance(source, StudyLogs):
        logs = source.logs
        digest = hashlib.sha256()
        for array in (
            logs.participants,
            logs.participant_index,
            logs.time,
            logs.state,
            logs.available,
            logs.action,
            logs.probability,
            logs.reward,
        ):
            digest.update(np.ascontiguousarray(array).tobytes())
        return [{"name": "arrays in memory", "sha256": digest.hexdigest()}]
    root = source if source.is_dir() else source.parent
    return [_file(file, root) for file in log_files.files_of(source)]


def _file(file: Path, root: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    return {"name": str(file.relative_to(root)), "bytes": file.stat().st_size, "sha256": digest}


def manifest_of(study: Study, inputs: list[dict[str, Any]], summaries: list[dict[str, Any]]) -> dict[str, Any]:
    """What a fit is made of; `key` names it: the same key means the same results."""
    import pyarrow as pa

    # As JSON reads it back, so that a manifest in memory equals the one in the file.
    parameters = json.loads(json.dumps(study.method().parameters()))
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
    counts = ("people", "decision_points", "available", "used", "removed")
    by_column: dict[str, Counter[str]] = {"missing": Counter(), "implausible": Counter()}
    for name, counter in by_column.items():
        for summary in summaries:
            counter.update(summary[name])
    return {
        "format": FORMAT,
        "key": key,
        **made_of,
        "seeds": [],
        **{name: sum(summary[name] for summary in summaries) for name in counts},
        **{name: dict(counter) for name, counter in by_column.items()},
        "warnings": [message for summary in summaries for message in summary["warnings"]],
    }
