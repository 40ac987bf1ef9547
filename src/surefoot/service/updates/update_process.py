"""An update in a process of its own: answering goes on, and a crash takes nothing else down."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import sqlalchemy as sa

from surefoot.service.database import databases
from surefoot.service.trial.trial import Trial, load_stored_study, open_trial
from surefoot.service.updates import updates


def start_update(trial: Trial, started_by: str, *, by_staff: bool = False) -> int:
    """Begin an update and leave it to a new process; its id."""
    update_id = updates.begin_update(trial, started_by, by_staff=by_staff)
    command = [sys.executable, "-m", "surefoot.service.updates.update_process", str(update_id), trial.study_id]
    # The URL may hold a password: other users of the machine can read command lines, not environments.
    environment = {**os.environ, "SUREFOOT_DATABASE": trial.database.url}
    process = subprocess.Popen(  # noqa: S603 - our own words
        command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True
    )
    threading.Thread(target=_watch_process, args=(trial, process, update_id), daemon=True).start()
    return update_id


def _watch_process(trial: Trial, process: subprocess.Popen[bytes], update_id: int) -> None:
    """Release the slot at once when the process ends without having finished the update."""
    if process.wait() == 0:
        return
    try:
        live = updates.describe_live(trial)
        with trial.database.transaction() as connection:
            updates.interrupt_update(trial, connection, update_id, live)
    except sa.exc.SQLAlchemyError:
        # The next update finds it dead.
        return


def main() -> None:
    """Run the update that the command line names."""
    update_id = int(sys.argv[1])
    study_id = sys.argv[2]
    database = databases.connect(os.environ["SUREFOOT_DATABASE"])
    study = load_stored_study(database, study_id)
    database.close()
    trial = open_trial(study, os.environ["SUREFOOT_DATABASE"])
    updates.run_update(trial, update_id)
    trial.close()


if __name__ == "__main__":
    main()
