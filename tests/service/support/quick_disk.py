"""SQLite that does not wait for the disk at every commit, in this process: nobody takes the power away from a test.

Servers in processes of their own wait as ever.
"""

import functools

import pytest
import sqlalchemy as sa

from surefoot.service.database import databases


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    real = databases._sqlite

    @functools.wraps(real)
    def open_quickly(*given):
        engine = real(*given)
        sa.event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous = OFF").close())
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "_sqlite", open_quickly)
        yield
