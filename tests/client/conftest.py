"""One served trial for all tests of a module, a proxy that can be told to fail, and both clients with one face."""

import asyncio
import itertools
from types import SimpleNamespace

import pytest

from surefoot.client import AsyncClient, Client, Retries
from surefoot.service import access
from surefoot.service.trial.trial import open_trial
from surefoot.study import Study
from tests.client.faulty_proxy import faulty_proxy
from tests.service.support.quick_disk import quick_disk  # noqa: F401 - a fixture
from tests.service.support.servers import running
from tests.service.support.trials import STUDY

QUICK = Retries(attempts=4, first_wait=0.01)
names = itertools.count()


@pytest.fixture(scope="module")
def served(quick_disk, tmp_path_factory):  # noqa: F811
    trial = open_trial(Study.parse(STUDY), f"sqlite:///{tmp_path_factory.mktemp('trial')}/trial.db")
    given = {role: access.create_key(trial.database, role) for role in ("app", "admin")}
    with running(trial) as url:
        yield SimpleNamespace(url=url, trial=trial, **given)


@pytest.fixture
def proxy(served):
    with faulty_proxy(served.url) as one:
        yield one


@pytest.fixture
def participant():
    """A name that no other test has."""
    return f"p-{next(names)}"


class Blocking:
    """An `AsyncClient` whose methods are called without await."""

    def __init__(self, client):
        self._client, self._runner = client, asyncio.Runner()

    def __getattr__(self, name):
        found = getattr(self._client, name)
        if not asyncio.iscoroutinefunction(found):
            return found
        return lambda *given, **named: self._runner.run(found(*given, **named))

    def end(self):
        self.close()
        self._runner.close()


@pytest.fixture(params=["threads", "asyncio"])
def connect(request):
    """Make a client of either kind; closed at the end."""
    opened = []

    def make(url, key, **settings):
        settings = {"retries": QUICK, "timeout": 5.0, **settings}
        if request.param == "threads":
            opened.append(Client(url, key, **settings))
            return opened[-1]
        opened.append(Blocking(AsyncClient(url, key, **settings)))
        return opened[-1]

    yield make
    for client in opened:
        getattr(client, "end", client.close)()
