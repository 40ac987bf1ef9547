import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_known_failure_names_a_test_that_there_is():
    """The table of docs/service.md: what trial services are known for, and what would show it here."""
    named = re.findall(r"`(tests/service/[\w/]+\.py)::(\w+)`", (ROOT / "docs" / "service.md").read_text(encoding="utf-8"))
    assert len(named) >= 8
    for path, test in named:
        assert f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), f"{path}::{test}"
