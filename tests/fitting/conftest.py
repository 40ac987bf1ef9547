"""Fixtures of all tests of fits: one process unless a test asks for more, and a store of objects."""

import pytest

from surefoot import fitting
from surefoot.fitting import parts


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Starting processes for a few people takes longer than all the rest."""
    monkeypatch.setattr(fitting, "ENOUGH_PARTS", 1000)
    monkeypatch.setattr(parts, "ENOUGH_FILES", 1000)


@pytest.fixture(scope="session")
def s3():
    """The URL of a bucket on a server of S3 in this process; what starts after it finds it by the environment."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
            "AWS_ACCESS_KEY_ID": "tester",
            "AWS_SECRET_ACCESS_KEY": "tester",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem().mkdir("trial")
        yield "s3://trial"
    server.stop()
