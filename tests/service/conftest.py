import os
import shutil
import uuid
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from surefoot.service import access
from surefoot.service.app import create_app
from surefoot.service.database import databases
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.service.support.client import Client
from tests.service.support.postgres import binaries, cluster, memory_folder
from tests.service.support.quick_disk import quick_disk  # noqa: F401 - a fixture
from tests.service.support.trials import STUDY


@pytest.fixture(scope="session", autouse=True)
def same_draws():
    """Trials that a test opens draw with one secret in every run: what they learn, and what passes the checks, does not
    hang on chance."""
    with pytest.MonkeyPatch.context() as patch:
        source = SimpleNamespace(token_bytes=lambda size: bytes(range(1, size + 1)))
        patch.setattr("surefoot.service.trial.trial.random_source", source)
        yield


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
    # No test takes the machine's power away. Most of the time of a new database is the making of its 300 files.
    with cluster(folder, ("fsync=off", "full_page_writes=off", "max_wal_size=64MB"), memory_folder()) as url:
        yield url


@contextmanager
def postgres_database(server, options=""):
    """The URL of a new database of that server."""
    server = make_url(server).set(drivername="postgresql+psycopg")
    name = f"trial_{uuid.uuid4().hex[:12]}"
    engine = sa.create_engine(server.set(database="postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name} {options}")
    yield server.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


def make_tables(url):
    database = databases.connect(url)
    databases.upgrade(database)
    database.close()


@pytest.fixture(scope="session")
def sqlite_tables(tmp_path_factory):
    """A file with all tables and no row, to be copied: the migrations take longer than most tests."""
    path = tmp_path_factory.mktemp("tables") / "trial.db"
    make_tables(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_tables(postgres):
    """The same as a template."""
    with postgres_database(postgres) as url:
        make_tables(url)
        yield make_url(url).database


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The URL of a database of each kind, with all tables and no row."""
    if request.param == "sqlite":
        path = shutil.copy(request.getfixturevalue("sqlite_tables"), tmp_path / "trial.db")
        yield f"sqlite:///{path}"
        return
    server, template = (request.getfixturevalue(name) for name in ("postgres", "postgres_tables"))
    with postgres_database(server, f"TEMPLATE {template}") as made:
        yield made


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request, tmp_path):
    """The URL of a database of each kind, without a table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/trial.db"
        return
    with postgres_database(request.getfixturevalue("postgres")) as made:
        yield made


@pytest.fixture
def study():
    return Study.parse(STUDY)


@pytest.fixture
def trial(study, url):
    opened = open_trial(study, url)
    yield opened
    opened.close()


@pytest.fixture
def client(trial):
    """A client with a key of every role, of the application in this process."""
    given = {role: access.create_key(trial.database, role) for role in access.ROLES}
    with Client(create_app(trial), given) as one:
        one.trial = trial
        yield one


@pytest.fixture
def browser(client):
    """The client as a browser that does not follow redirects by itself."""
    client.follow_redirects = False
    return client


@pytest.fixture
def empty(empty_url):
    database = databases.connect(empty_url)
    yield database
    database.close()


@pytest.fixture
def later_migration(monkeypatch, tmp_path):
    """Add a migration that a later release might bring, with these statements."""

    def add(statements):
        folder = tmp_path / "migrations"
        shutil.copytree(databases.MIGRATIONS, folder)
        header = "import sqlalchemy as sa\nfrom alembic import op\n\nrevision = 'later'\n"
        header += f"down_revision = '{databases.newest_schema_version()}'\n"
        text = f"{header}\n\ndef upgrade():\n    {statements}\n"
        (folder / "versions" / "later.py").write_text(text)
        monkeypatch.setattr(databases, "MIGRATIONS", folder)

    return add
