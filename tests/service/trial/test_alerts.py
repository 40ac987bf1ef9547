from datetime import UTC, datetime, timedelta

import sqlalchemy as sa

from surefoot.service.database.schema import alerts
from surefoot.service.trial.alerts import close_alert, raise_periodic_alerts
from tests.service.support.client import request
from tests.service.support.trials import answer


def test_alerts_come_once_a_day_and_can_be_closed(trial):
    from surefoot.service.trial.participants import register_participant

    now = datetime.now(UTC)
    raise_periodic_alerts(trial, now)
    register_participant(trial.database, "p0")
    for index in range(20):
        answer(trial, index=index, context={} if index < 10 else request()["context"])
    for _ in range(2):
        raise_periodic_alerts(trial, now + timedelta(hours=1))
        raise_periodic_alerts(trial, now + timedelta(hours=30))
    with trial.database.autocommit() as connection:
        found = connection.execute(sa.select(alerts.c.id, alerts.c.kind).order_by(alerts.c.id)).all()
    assert [kind for _, kind in found] == ["fallbacks", "no-data"]
    assert close_alert(trial.database, found[0].id) and not close_alert(trial.database, found[0].id)
