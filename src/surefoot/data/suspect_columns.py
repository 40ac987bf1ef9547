"""Columns that are not what they seem: codes for "missing", columns that give away the action, or the reward.

One place for `surefoot init`, which leaves such columns out, and for fits, audits and screening, which warn of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from surefoot.data.column_summaries import ColumnSummary
from surefoot.data.log_columns import MISSING_ANSWERS, MISSING_SIGNS, LogColumn, is_text
from surefoot.data.trajectories import Trajectories

if TYPE_CHECKING:
    import pyarrow as pa

PROBABILITIES = (
    r"^(p|pi|pr|prob|probs|probability|propensity|p?score)[._ -]?"
    r"(of[._ -])?(a|action|arm|treat\w*|sen[dt]\w*|rand\w*)?[._ -]?\d*$",
    r"^(rand\w*|treat\w*|action|send|sent|a\d?|arm\w*|assign\w*)[._ -]?(p|pr|prob|probability|propensity)$",
)
"""How columns of probabilities are usually called."""
INDEX = r"^(|unnamed: ?\d+|index|row([._ -]?(number|name|names|id|no))?|x\d?|\.\.\.\d+|_c\d+|level_\d+)$"
"""How the number of a row is called by the programs that write it."""
AFTERWARDS = (
    r"(^|[._ -])(after|post|next|later|future|follow[._ -]?up|respon\w+|outcome|result|click\w*|opened|dismissed|answered|"
    r"thumbs\w*|reaction|completed|engaged)([._ -]|\d|$)"
)
"""What such columns hold is usually known only after the decision."""
CODES = (-1, *(sign * (10**digits - 1) for digits in range(1, 7) for sign in (1, -1)), 77, 777, 88, 888)
"""What questionnaires and devices write for "missing"."""
LEAST_RECURRING = 5
FEW_VALUES = 12
"""In a column with fewer different values every value is common."""
STANDS_OUT = 5.0
NEIGHBOURS = 5
"""A value stands out that is so many times as common as the values next to it, so many on either side."""
PLATFORMS = {
    "REDCap": (
        r"^(redcap_\w+|record_id)$",
        r"^(redcap_(event_name|repeat_instrument|repeat_instance|data_access_group|survey_identifier)|\w+_complete)$",
    ),
    "Qualtrics": (
        r"^(ResponseId|RecordedDate|DistributionChannel)$",
        r"^(StartDate|EndDate|Status|IPAddress|Progress|Duration \(in seconds\)|Finished|RecordedDate|ResponseId|"
        r"Recipient\w+|External(Data)?Reference|Location(Latitude|Longitude)|DistributionChannel|UserLanguage|Q_\w+Score)$",
    ),
    "m-Path": (
        r"^(connectionId|scheduledBeepId)$",
        r"^(connectionId|legacyCode|code|alias|initials|accountCode|\w*BeepId|questionList(Name|Label)|fromProtocolName|"
        r"\w*[tT]imeStamp\w*|timeZoneOffset|deltaUTC)$",
    ),
}
"""Columns by which a platform is known, and those in which it says which form, event or survey a row comes from."""
LEAST_REPEATED = 3
MOST_WORDS = 3
MOST_WORD_ROWS = 0.2
"""Among numbers so few different words, in so few of the rows, stand for "missing", whatever they say."""
MOST_ROWS = 20_000
FEWEST_ROWS = 30
GIVES_AWAY = 0.9
"""A column that removes this share of the mistakes of the best constant guess of the action gives the action away."""


@dataclass(frozen=True)
class MissingWords:
    """The words that stand for "missing" in a column of text."""

    signs: tuple[str, ...] = ()
    """Those that do so in any column."""
    among_numbers: tuple[str, ...] = ()
    """Those that do so because all else is numbers."""


@dataclass(frozen=True)
class Suspicion:
    """What is suspect about a column, in words that go after its name."""

    column: str
    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.column} {self.what}; {self.remedy}"


def find_missing_words(cells: pa.Array) -> MissingWords:
    """Words of a column that mean that nothing is known.

    >>> import pyarrow as pa
    >>> find_missing_words(pa.array(["3", "4", "watch off", "5", "n/a", "4", "3", "6"]))
    MissingWords(signs=('n/a',), among_numbers=('watch off',))
    """
    if not is_text(cells.type):
        return MissingWords()
    texts, indices = LogColumn("", cells).distinct()
    rows = dict(zip(texts, np.bincount(indices[indices >= 0], minlength=len(texts)).tolist(), strict=True))
    words = [text for text in texts if not is_finite_number(text)]
    signs = [word for word in words if word.lower() in MISSING_SIGNS]
    others = [word for word in words if word not in signs]
    numbers = sum(rows.values()) - sum(rows[word] for word in words)
    if numbers <= sum(rows[word] for word in others):
        return MissingWords(tuple(signs))
    answers = [word for word in others if word.lower() in MISSING_ANSWERS]
    unknown = [word for word in others if word not in answers]
    few = len(unknown) <= MOST_WORDS and sum(rows[word] for word in unknown) <= MOST_WORD_ROWS * numbers
    if few and not any(re.search(r"\d", word) for word in unknown):
        answers += unknown
    return MissingWords(tuple(signs), tuple(answers))


def is_finite_number(text: str) -> bool:
    """Whether a text is a number; `inf` and `nan` are not."""
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def find_codes(values: NDArray[np.float64]) -> list[float]:
    """Values that occur again and again, at an end, and lie apart from everything else; and negative numbers that
    questionnaires and devices write for "missing", wherever they lie, if they stand out.

    >>> find_codes(np.array([20.5, 21, 19, 22, 18.5, -99, -99, -99, 20] * 4))
    [-99.0]
    """
    lonely = _find_lonely_codes(values)
    recurring = find_recurring_codes(*np.unique(values[np.isfinite(values)], return_counts=True))
    return lonely + [code for code in recurring if code < 0 and code not in lonely]


def _find_lonely_codes(values: NDArray[np.float64]) -> list[float]:
    """Values that occur again and again at an end and lie apart, one after the other."""
    codes: list[float] = []
    values = values[np.isfinite(values)]
    while values.size >= FEWEST_ROWS:
        distinct, counts = np.unique(values, return_counts=True)
        code = next((end for end in (0, -1) if len(distinct) > 3 and _lies_apart(distinct, counts, end)), None)
        if code is None:
            break
        codes.append(float(distinct[code]))
        values = values[values != distinct[code]]
    return codes


def find_recurring_codes(distinct: NDArray[np.float64], counts: NDArray[np.int64]) -> list[float]:
    """Numbers that questionnaires and devices write for "missing", neither the least nor the greatest value unless
    negative, that are much more common than the values next to them; of many distinct values with their counts.

    >>> steps = np.array([-99.0] * 20 + [-3.0, 99.0, 100.0] + list(range(1, 60)))
    >>> find_recurring_codes(*np.unique(steps, return_counts=True))
    [-99.0]
    """
    if len(distinct) < FEW_VALUES:
        return []
    listed = np.flatnonzero(np.isin(distinct, CODES) & (counts >= LEAST_RECURRING))
    inside = (distinct < 0) | (np.arange(len(distinct)) < len(distinct) - 1)
    return [float(distinct[place]) for place in listed if inside[place] and stands_out(counts, int(place))]


def stands_out(counts: NDArray[np.int64], place: int) -> bool:
    """Whether a value is much more common than the values next to it; counts are in the order of the values."""
    around = np.r_[max(place - NEIGHBOURS, 0) : place, place + 1 : min(place + NEIGHBOURS + 1, len(counts))]
    return bool(counts[place] >= STANDS_OUT * np.median(counts[around]))


def _lies_apart(distinct: NDArray[np.float64], counts: NDArray[np.int64], end: int) -> bool:
    rest = distinct[1:] if end == 0 else distinct[:-1]
    if counts[end] < LEAST_REPEATED:
        return False
    gap, width = np.min(np.abs(rest - distinct[end])), np.ptp(rest)
    if distinct[end] not in CODES:
        # Whatever its value: further from the others than they are from each other, and more often than each of them.
        return bool(gap > 2 * width and counts[end] >= np.median(counts))
    # A negative code in a measurement that cannot be negative need not be far away.
    measured = width > 100 or np.mean(rest != np.round(rest)) > 0.5
    return bool(gap > min(width / 2, 1.5 * np.diff(rest).max()) or (measured and distinct[end] < 0 <= rest.min()))


def gives_away_action(values: NDArray[Any], action: NDArray[np.int64]) -> bool:
    """Whether a column (numbers with NaN, or codes of text) says which action was taken, also by being missing."""
    if len(action) < FEWEST_ROWS:
        return False
    missing = np.isnan(values)
    groups = np.unique(np.where(missing, np.inf, values), return_inverse=True)[1]
    if groups.max() >= len(action) // 10:
        # A measurement: does it lie on one side of a point where something was sent, and on the other where not?
        groups = np.where(missing, 2, _best_split(values, action > 0))
    right = np.zeros((groups.max() + 1, action.max() + 1))
    np.add.at(right, (groups, action), 1)
    base = right.sum(axis=0).max() / len(action)
    least = np.sort(right.sum(axis=0))[::-1][1:2].sum()
    accuracy = right.max(axis=1).sum() / len(action)
    return bool(least >= 5 and accuracy - base >= GIVES_AWAY * (1 - base))


def _best_split(values: NDArray[np.float64], sent: NDArray[np.bool_]) -> NDArray[np.int64]:
    """1 above the point that parts sent from not sent best, 0 below."""
    order = np.argsort(values)
    ahead = np.cumsum(np.where(sent[order], 1.0, -1.0) * ~np.isnan(values[order]))
    # A point within equal values parts nothing.
    ends = np.append(values[order][1:] != values[order][:-1], True)
    place = int(np.argmax(np.where(ends, np.abs(ahead - ahead[-1] / 2), -1)))
    above: NDArray[np.int64] = (values > values[order][place]).astype(np.int64)
    return above


def looks_like_probability(name: str) -> bool:
    """Whether a column is called like a probability."""
    return any(re.match(pattern, name, re.IGNORECASE) for pattern in PROBABILITIES)


def is_probability(summary: ColumnSummary) -> bool:
    """Whether a column is called like a probability and holds numbers from 0 to 1."""
    numbers = summary.numbers
    named = looks_like_probability(summary.name)
    return named and numbers is not None and bool(numbers.size and numbers.min() >= 0 and numbers.max() <= 1)


def is_index(summary: ColumnSummary) -> bool:
    """Whether a column counts the rows."""
    numbers = summary.numbers
    counts = numbers is not None and numbers.size > 1 and summary.missing == 0 and bool((np.diff(numbers) == 1).all())
    return counts and re.match(INDEX, summary.name, re.IGNORECASE) is not None


def find_platform(name: str, columns: Sequence[str]) -> str | None:
    """The platform that wrote a column to tell rows apart; None where it may hold a measurement.

    >>> find_platform("redcap_event_name", ["record_id", "redcap_event_name"]), find_platform("Status", ["id", "Status"])
    ('REDCap', None)
    """
    for platform, (mark, columns_of_platform) in PLATFORMS.items():
        if re.match(columns_of_platform, name) and any(re.match(mark, column) for column in columns):
            return platform
    return None


def is_afterwards(name: str) -> bool:
    """Whether a column is called like something that is known only after the decision."""
    return re.search(AFTERWARDS, name, re.IGNORECASE) is not None


def find_suspect_codes(
    logs: Trajectories,
    *,
    scaling: Mapping[str, tuple[float, float]] | None = None,
    raw_reward: NDArray[np.float64] | None = None,
) -> list[Suspicion]:
    """Values of states and rewards, at available decision points, that may stand for "missing".

    `scaling` gives the centre and the scale of columns of the state and `raw_reward` the rewards before their transform, so
    that values are named as they are in the logs. Of many rows a sample is looked at.
    """
    rows = np.flatnonzero(logs.available)
    rows = rows[:: -(-len(rows) // MOST_ROWS) or 1]
    suspicions = []
    for j, column in enumerate(logs.state_names):
        centre, scale = (scaling or {}).get(column, (0.0, 1.0))
        # Rounded, because scaling back does not give a code to the last bit.
        suspicions += _suspect_codes(f"state variable '{column}'", np.round(logs.state[rows, j] * scale + centre, 9))
    reward = (logs.reward if raw_reward is None else raw_reward)[rows]
    return suspicions + _suspect_codes(f"reward '{logs.names.reward}'", reward)


def _suspect_codes(name: str, values: NDArray[np.float64]) -> list[Suspicion]:
    apart = _find_lonely_codes(values)
    recurring = find_recurring_codes(*np.unique(values[np.isfinite(values)], return_counts=True))
    words = dict.fromkeys([*apart, *recurring], "more often than the values next to it")
    words |= dict.fromkeys(apart, "apart from all other values")
    return [
        Suspicion(
            name,
            f"holds {code:.6g} again and again, {why}",
            f"if it stands for missing, write missing = [{code:.6g}] in its section",
        )
        for code, why in words.items()
    ]
