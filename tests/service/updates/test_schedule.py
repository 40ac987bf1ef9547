from datetime import UTC, datetime, timedelta

from surefoot import Study
from surefoot.service.trial.trial import open_trial
from surefoot.service.updates import schedule
from tests.service.support.trials import STUDY


def test_the_nightly_update_is_taken_once(url, monkeypatch):
    study = Study.parse(STUDY.replace('"never"', '"03:00"\ntime_zone = "Europe/Zurich"'))
    workers = [open_trial(study, url), open_trial(study, url)]
    started = []
    monkeypatch.setattr(schedule.update_process, "start_update", lambda trial, by: started.append(by) or 1)
    begin = datetime.now(UTC)
    assert schedule.tick(workers[0], begin) is None, "nothing is due before the trial began"
    for days in (1, 1, 2, 2, 2):
        for worker in workers:
            schedule.tick(worker, begin + timedelta(days=days))
    assert started == ["schedule"] * 2
    for worker in workers:
        worker.close()
