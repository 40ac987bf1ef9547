"""Sentences that need no second reading: none in the manual or on the pages of the demo has more than 30 words.

Tables, code, formulas and lists are no prose; docs/mistakes.md and docs/reproduction are made from messages and results.
"""

import re
from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"
MADE = ("mistakes.md", "reproduction")
LONGEST = 30

BLOCKS = re.compile(
    r"^---\n.*?\n---$|^( *)(```|~~~).*?^\1\2 *$|^\$\$.*?\$\$$|<!--.*?-->|<(svg|style|pre|table)\b.*?</\3>", re.S | re.M
)
LIST_ITEM = re.compile(r"(?:[-*+]|\d+\.) ")
NO_PROSE = re.compile(r"#|\||!!! |\?\?\? |!\[|=== ")
ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|vs|cf|Fig)\.")
END = re.compile(r"(?<=[.!?])[)\"”*_]*\s+(?=[`\[]|[\"“(*_]*[^\s\"“(*_a-z])")
INLINE = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),  # a link is its words
    (re.compile(r"`[^`]+`|\$[^$]+\$"), "code"),
    (re.compile(r"<[^>]+>"), " "),
)


def split_sentences(text):
    for sentence in END.split(ABBREVIATION.sub(r"\1", text)):
        for pattern, words in INLINE:
            sentence = pattern.sub(words, sentence)
        yield sentence


def count_words(sentence):
    return len(re.findall(r"[^\W_]+(?:[.,'’/·×-][^\W_]+)*", sentence))


def list_paragraphs(markdown):
    """The paragraphs of running text; what stands indented under a list item belongs to the list."""
    is_list = False
    for block in re.split(r"\n\s*\n", BLOCKS.sub("\n\n", markdown)):
        lines = block.strip("\n").splitlines()
        prose = []
        for line in lines:
            if LIST_ITEM.match(line.strip()):
                is_list = True
            elif not line.startswith(" ") and line is lines[0]:
                is_list = False
            if not is_list and not NO_PROSE.match(line.strip()):
                prose.append(line.strip().removeprefix(":   "))
        if prose:
            yield " ".join(prose)


def find_long_sentences(paragraphs):
    return [
        sentence for paragraph in paragraphs for sentence in split_sentences(paragraph) if count_words(sentence) > LONGEST
    ]


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


def test_no_sentence_of_the_manual_is_long():
    found = {}
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS)
        if name.parts[0] not in MADE and (long := find_long_sentences(list_paragraphs(path.read_text(encoding="utf-8")))):
            found[str(name)] = long
    assert found == {}
