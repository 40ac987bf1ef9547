"""Sentences of Markdown and HTML pages. Tables, code, formulas and, in Markdown, lists are no prose."""

import re
from html import unescape

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
        words = sentence
        for pattern, replacement in INLINE:
            words = pattern.sub(replacement, words)
        yield words


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


def read_page(html):
    """The paragraphs and list items of an HTML page."""
    prose = re.sub(r"<(head|pre|script|style|svg|table)\b.*?</\1>", " ", html, flags=re.DOTALL)
    code = re.sub(r"<code>[^<]*</code>", "`code`", prose)
    blocks = re.split(
        r"</?(?:br|d[dlt]|details|div|figcaption|figure|h\d|header|li|main|nav|ol|p|section|summary|ul)\b[^>]*>", code
    )
    return [" ".join(unescape(re.sub(r"<[^>]+>", " ", block)).split()) for block in blocks]
