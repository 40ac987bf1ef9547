"""No sentence of the manual has more than 30 words; tests/cli/test_demo.py holds the pages of the demo to that."""

from pathlib import Path

from tests.sentences import count_words, find_long_sentences, list_paragraphs, read_page, split_sentences

DOCS = Path(__file__).parents[1] / "docs"
MADE = ("mistakes.md", "reproduction")
"""Made from messages and results."""


def test_the_splitter_sees_sentences_and_leaves_the_rest():
    page = """# A title of no sentence

One two `three.Four` five. Six [seven eight](page.md) et al. nine!

| a | table |
```sh
code
```
- an item
  that goes on
    indented

**Bold.** Ten
eleven
"""
    sentences = [sentence for paragraph in list_paragraphs(page) for sentence in split_sentences(paragraph)]
    assert [count_words(sentence) for sentence in sentences] == [4, 6, 1, 2]
    assert find_long_sentences([" ".join(["word"] * 30) + ".", " ".join(["word"] * 31) + "."])[0].count("word") == 31


def test_a_page_gives_its_prose():
    page = (
        "<head><title>No prose</title></head><p>One <code>a b</code>.<br>Two &amp; three</p><table><tr><td>4</table><li>Five"
    )
    assert [block for block in read_page(page) if block] == ["One `code`.", "Two & three", "Five"]


def test_no_sentence_of_the_manual_is_long():
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS)
        if name.parts[0] not in MADE and (long := find_long_sentences(list_paragraphs(path.read_text(encoding="utf-8")))):
            found[str(name)] = long
    assert found == {}
