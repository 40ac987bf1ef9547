import pytest

from tests.service.support.client import Client


@pytest.fixture
def browser(client: Client):
    client.follow_redirects = False
    return client
