"""Tutorials show what their blocks printed and drew, and fail when a block does."""

import pytest
from manual.tutorials import run_tutorial

PAGE = """# A page

```python
import matplotlib.pyplot as plt

figure, axes = plt.subplots(figsize=(1, 1))
axes.set_title("Two")
print("one")
1 + 1
```

```toml title="rehearsal.toml"
trials = 2
```

```python
print(open("rehearsal.toml").read());
```

```sh
surefoot --version
```

```sh
# not run here: needs a server
systemctl start surefoot
```
"""


def test_results_stand_under_their_blocks(tmp_path):
    (tmp_path / "page.md").write_text(PAGE)
    done = run_tutorial(tmp_path / "page.md")
    assert "```text\none\n2\n```" in done.text and "![Two](page-1.png)" in done.text
    assert done.figures["page-1.png"].startswith(b"\x89PNG")
    assert "```text\ntrials = 2\n```" in done.text and "```text\nsurefoot " in done.text
    assert done.text.endswith("systemctl start surefoot\n```\n")


def test_a_block_that_fails_fails_the_build(tmp_path):
    (tmp_path / "page.md").write_text("```sh\nsurefoot fit no.csv\n```\n")
    with pytest.raises(AssertionError, match=r"surefoot fit no\.csv"):
        run_tutorial(tmp_path / "page.md")
    (tmp_path / "page.md").write_text("```sh\nrm -r folder\n```\n")
    with pytest.raises(AssertionError, match="is not run"):
        run_tutorial(tmp_path / "page.md")


def test_without_its_file_a_tutorial_says_that_it_was_not_run(tmp_path):
    (tmp_path / "page.md").write_text("<!-- needs: ../no/such.csv -->\n\n```python\n1 / 0\n```\n")
    assert "built without the file `such.csv`" in run_tutorial(tmp_path / "page.md").text
