"""The manifest of a rehearsal, which a protocol can cite, and the folder in which its blocks wait for each other."""

from __future__ import annotations

import hashlib
import json
import platform
from pathlib import Path
from typing import Any

import numpy as np
import scipy

from surefoot.atomic_files import json_text, refuse_unwritable, write_texts
from surefoot.data.log_files import LogFile
from surefoot.data.trajectories import Trajectories
from surefoot.errors import InputError
from surefoot.fitting.manifest import hash_arrays
from surefoot.rehearsal.plan import RehearsalPlan
from surefoot.study import Study, StudyLogs
from surefoot.study.log_reader import study_files
from surefoot.version import __version__

FORMAT = "surefoot-rehearsal-1"
MANIFEST = "manifest.json"


def fingerprint_pilot(pilot: Path | StudyLogs | Trajectories | None, study: Study) -> list[dict[str, Any]]:
    """Name, size and hash of every file, or a hash of what was in memory."""
    if pilot is None:
        return []
    if isinstance(pilot, Path):
        return [LogFile(file).fingerprint(pilot) for file in study_files(study, pilot)]
    return hash_arrays(pilot.logs if isinstance(pilot, StudyLogs) else pilot)


def make_manifest(study: Study, plan: RehearsalPlan, pilot: list[dict[str, Any]]) -> dict[str, Any]:
    """What a rehearsal is made of; `key` names it. The number of trials is not part of the key: more can be added."""
    whole = plan.model_dump(mode="json")
    trials = whole.pop("trials")
    made_of = {
        "versions": {
            "surefoot": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
            "scipy": scipy.__version__,
        },
        "study": {"sha256": hashlib.sha256(study.text.encode()).hexdigest()},
        "plan": {"sha256": hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest(), "keys": whole},
        "pilot": pilot,
    }
    key = hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()[:16]
    return {"format": FORMAT, "key": key, **made_of, "trials": trials}


def open_folder(folder: Path, manifest: dict[str, Any]) -> Path:
    """The folder's place for blocks, after its manifest was written."""
    with refuse_unwritable(folder):
        (folder / "blocks").mkdir(parents=True, exist_ok=True)
    write_texts({folder / MANIFEST: json_text(manifest) + "\n"})
    return folder / "blocks"


def refuse_other_results(folder: Path, manifest: dict[str, Any]) -> None:
    """Before anything is computed: a folder of another rehearsal, or of something else, stays as it is."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        before = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = None
    if not isinstance(before, dict) or before.get("format") != FORMAT:
        raise InputError(f"{folder}: is there and is not a rehearsal; choose another folder with --out")
    if before.get("key") == manifest["key"]:
        return
    parts = ("study", "plan", "pilot", "versions")
    changed = [name for name in parts if before.get(name) != json.loads(json_text(manifest[name]))]
    raise InputError(
        f"{folder}: holds the results of another rehearsal (another {', '.join(changed)}); choose another folder with "
        "--out, or remove this one"
    )
