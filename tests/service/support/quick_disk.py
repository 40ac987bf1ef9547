"""SQLite that does not wait for the disk at every commit, in this process: nobody takes the power away from a test.

Servers in processes of their own wait as ever.
"""

import pytest

from surefoot.service.database import databases


@pytest.fixture(scope="session", autouse=True)
def quick_disk():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(databases, "PRAGMAS", (*databases.PRAGMAS, "synchronous = OFF"))
        yield
