import os
import uuid

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.service.access import keys
from surefoot.service.app import create_app
from surefoot.service.database import databases
from surefoot.service.trial.trial import open_service
from surefoot.study import Study
from tests.service.client import Client
from tests.service.postgres import binaries, cluster

STUDY = """\
[columns]
participant = "participant"
time = "time"
available = "available"
probability = "probability"

[state.weather]
range = [-10, 10]

[state.engagement]

[state.place]
kind = "category"
levels = ["other", "home"]

[reward]
column = "steps"

[method]
name = "ro-accb"
pooling = "person"

[probability_limits]
minimum = 0.1
maximum = 0.9

[trial]
warm_up_decision_points = 20
warm_up_probability = 0.5
fallback_probability = 0.25
update_time = "never"

[trial.guard_rails]
max_removed = 0.5
max_send_rate_change = 0.8

[trial.limits]
requests_per_second = 10000
"""


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server, a real one; tests that need it are skipped where there is none."""
    given = os.environ.get("SUREFOOT_TEST_POSTGRES")
    if given:
        yield given
        return
    folder = binaries()
    if folder is None:
        pytest.skip("no PostgreSQL: install it (apt-get install postgresql) or set SUREFOOT_TEST_POSTGRES to a server's URL")
    with cluster(folder) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/trial.db"
        return
    server = make_url(request.getfixturevalue("postgres")).set(drivername="postgresql+psycopg")
    name = f"trial_{uuid.uuid4().hex[:12]}"
    engine = sa.create_engine(server.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
    yield server.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()


@pytest.fixture
def study():
    return Study.parse(STUDY)


@pytest.fixture
def service(study, url):
    opened = open_service(study, url)
    yield opened
    opened.close()


@pytest.fixture
def client(service):
    """A client with a key of every role, of the application in this process."""
    given = {role: keys.create(service.database, role) for role in keys.ROLES}
    with Client(create_app(service), given) as one:
        one.service = service
        yield one


@pytest.fixture
def empty(url):
    database = databases.connect(url)
    yield database
    database.close()
