import pytest

from surefoot.fitting import part_work, partition


@pytest.fixture(autouse=True)
def in_this_process(monkeypatch):
    """Starting processes for a few people takes longer than all the rest."""
    monkeypatch.setattr(part_work, "ENOUGH_PARTS", 1000)
    monkeypatch.setattr(partition, "ENOUGH_FILES", 1000)
