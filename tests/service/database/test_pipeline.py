"""A PostgreSQL that goes away in the middle of a pipeline is the database's fault: 503, and the next decision is fine."""

import pytest
import sqlalchemy as sa

from surefoot.service.database.faults import DATABASE_FAULTS
from surefoot.service.trial import decisions
from tests.service.support.trials import column

pytestmark = pytest.mark.parametrize("url", ["postgresql"], indirect=True)


@pytest.fixture
def end_connection(url):
    """Ends the connection that it is given, on the server's side."""
    other = sa.create_engine(url, isolation_level="AUTOCOMMIT")

    def end(connection):
        pid = connection.connection.driver_connection.info.backend_pid
        with other.connect() as another:
            assert another.scalar(sa.select(sa.func.pg_terminate_backend(pid)))

    yield end
    other.dispose()


@pytest.mark.parametrize("step", ["read_points", "record"])
def test_a_connection_that_ends_in_a_pipeline_is_503(client, end_connection, monkeypatch, step):
    """Before a statement that is waited for, and after the last one, where only the commit can tell."""
    client.register("p1")
    original = getattr(decisions, step)

    def fail(connection, *given):
        end_connection(connection)
        return original(connection, *given)

    with monkeypatch.context() as patch:
        patch.setattr(decisions, step, fail)
        reply = client.decide("p1")
    assert (reply.status_code, reply.headers.get("retry-after") is not None) == (503, True), reply.text
    assert column(client.trial, decisions.decisions.c.id) == [], "nothing was recorded"
    assert client.decide("p1").status_code == 200


def test_a_pipeline_that_cannot_end_is_the_databases_fault(trial, end_connection):
    """Here the driver's error comes past SQLAlchemy."""
    with pytest.raises(DATABASE_FAULTS), trial.database.transaction(pipelined=True) as connection:
        connection.commit()
        end_connection(connection)
