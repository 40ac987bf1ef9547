"""Logs that can be read and are not what they seem: what every command says first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

import surefoot as sf
from surefoot.log_checks import check_logs, list_warnings
from surefoot.study.draft import draft_study
from tests.mistakes.catalogue import Mistake
from tests.mistakes.given import unbalanced

STUDY = """\
[columns]
participant = "participant"
time = "time"
[state.temperature]
[actions]
names = ["nothing", "walk"]
[outcome]
column = "steps"
"""


def warn(
    change: Callable[[np.ndarray, np.ndarray], np.ndarray] = lambda steps, action: steps,
    added: str = "",
    columns_of: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = lambda columns: columns,
) -> Callable[[], str]:
    """Warnings about logs of 20 people × 40 decision points, with outcomes that `change` makes of sound ones and actions.

    `added` comes at the end of the study; `columns_of` makes other columns of the sound ones.
    """

    def make() -> str:
        rng = np.random.default_rng(0)
        shape = (20, 40)
        action = rng.integers(0, 2, shape)
        steps = np.round(np.exp(6 + 0.3 * rng.standard_normal((20, 1)) + 0.5 * rng.standard_normal(shape)))
        columns = {
            "participant": np.repeat([f"p{number:02d}" for number in range(1, 21)], 40),
            "time": np.tile(np.arange(40), 20),
            "temperature": np.round(rng.normal(15, 8, shape), 1).ravel(),
            "action": action.ravel(),
            "steps": change(steps, action).ravel(),
        }
        pyarrow.csv.write_csv(pa.table(columns_of(columns)), "logs.csv")
        study = sf.Study.parse(STUDY + added)
        return "\n".join(list_warnings(check_logs(study.read("logs.csv"), study)))

    return make


def measure_after(share: float) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """A temperature that is the outcome, with noise of this share of its spread within people."""

    def change(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        steps = columns["steps"]
        noise = np.random.default_rng(1).standard_normal(steps.shape)
        return {**columns, "temperature": np.round(steps + share * steps.std() * noise)}

    return change


def dose_of(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {**columns, "temperature": 3.0 * columns["action"]}


def zero_after_nothing(steps: np.ndarray, action: np.ndarray) -> np.ndarray:
    return np.where((action == 0) & (np.arange(steps.size).reshape(steps.shape) % 5 < 2), 0, steps)


def count_thousands(steps: np.ndarray, action: np.ndarray) -> np.ndarray:
    return np.where(np.arange(20)[:, None] < 3, steps / 1000, steps)


def write_codes(steps: np.ndarray, action: np.ndarray) -> np.ndarray:
    coded = np.where(np.arange(steps.size).reshape(steps.shape) % 11 == 0, -99, steps)
    coded[0, 1] = -3
    return coded


def spell_twice(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    other = (columns["time"] % 2 == 1) & (columns["participant"] == "p01")
    return {**columns, "participant": np.where(other, "P01", columns["participant"])}


def hide_availability(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    free = columns["time"] % 10 != 0
    return {**columns, "action": np.where(free, columns["action"], 0), "avail": free.astype(int)}


def draft(old: str, new: str, count: int = -1) -> Callable[[], str]:
    """Warnings of `surefoot init` about logs in which something was replaced."""

    def make() -> str:
        lines = [
            f"p{row // 20},{row % 20},{row * 7 % 10}.25,{bin(row * 40503).count('1') % 2},0.5,{row * 37 % 101}"
            for row in range(200)
        ]
        text = "participant,time,mood,sent,p,steps\n" + "\n".join(lines) + "\n"
        assert old in text
        Path("logs.csv").write_text(text.replace(old, new, count), encoding="utf-8")
        return "\n".join(draft_study(Path("logs.csv")).warnings)

    return make


MISTAKES = [
    Mistake(
        "A participant whose id is written in two ways",
        warn(columns_of=spell_twice),
        "look: participants and availability: participants 'P01' and 'p01' differ only in case, blanks or leading zeros, and count as different people; write each id in one way if they are the same participant",
    ),
    Mistake(
        "The number of the row for the participant",
        warn(columns_of=lambda columns: {**columns, "participant": np.arange(800)}),
        "unsafe: participants and availability: every participant of column 'participant' has exactly one row, so it seems to number the rows; name the column that identifies the participant",
    ),
    Mistake(
        "A column of availability that the study does not name",
        warn(columns_of=hide_availability),
        "unsafe: participants and availability: column 'avail' looks like availability (nothing could be sent in 80 rows), but has no role, so that these rows count as decisions to send nothing; name it as available",
    ),
    Mistake(
        "init of actions that are 1 and 2",
        draft(",0,0.5,", ",2,0.5,"),
        "column 'sent': 1 is taken for \"nothing\", because it is the smallest code; see [actions]",
    ),
    Mistake(
        "init of words for missing",
        draft(",0\n", ",.\n"),
        "'.' counts as missing (missing in [columns]); take out what is a value",
    ),
    Mistake(
        "init of rows that end early",
        draft(",37\n", "\n"),
        "2 rows have fewer or more fields than the header (line 3, 104); left out fields count as missing (ragged in [file])",
    ),
    Mistake(
        "init of a header of two rows",
        draft("steps\n", "steps\nwho,when,0 to 10,sent?,chance,per hour\n"),
        "row 2 belongs to the header and is not read (header_rows in [file])",
    ),
    Mistake(
        "init of logs without the randomisation probability",
        draft(",0.5,", ",88,"),
        "no column looks like the randomisation probability ('p' holds no numbers from 0 to 1), which effects and evaluate need; name its column with --probability NAME, or write the design's probabilities in [actions]",
    ),
    Mistake(
        "Zeros after nothing: a watch that is put on when it buzzes, or a prompt that works",
        warn(zero_after_nothing),
        "unsafe: values by action: 'steps' is 0 in 38.6 % after 'nothing' and 0.0 % after 'walk' (difference −38.6 percentage points, 95 % interval −42.4 to −34.3; p < 0.001); there are two explanations: the prompt changed what people did, or it changed what was recorded (people put the watch on when it buzzes, an unanswered question is stored as a number). Look at when the device was worn, or ask participants. If people did this, write zero = \"real\" in [outcome]: the difference then counts as an effect. If not, write missing = [0] there, and make recording independent of the prompt; until then do not rely on effects, values or policies",
    ),
    Mistake(
        "Three participants who count thousands of steps",
        warn(count_thousands),
        "unsafe: units by participant: 'steps' of 3 participants ('p01', 'p02', 'p03') is about 1/1000 of other people's throughout (median size 0.303, others 442.5); find out in which unit these participants recorded, and bring the column to one unit before anything is analysed; nothing was removed or converted here",
    ),
    Mistake(
        "-99 for missing, beside one genuine negative value",
        warn(write_codes),
        "look: suspect columns: outcome 'steps' holds -99 again and again, more often than the values next to it; if it stands for missing, write missing = [-99] in its section",
    ),
    Mistake(
        "A state that was measured with the outcome",
        warn(columns_of=measure_after(0.05)),
        "unsafe: leaks: 'temperature' says what the outcome was: correlation 0.998 within people, beyond the action, its own past and that of the outcome; leave it out unless it was known before the decision; a value that is measured with the outcome hides the effect of the action",
    ),
    Mistake(
        "A state that tells most of the outcome",
        warn(columns_of=measure_after(0.3)),
        "look: leaks: 'temperature' nearly says what the outcome was: correlation 0.931 within people, beyond the action, its own past and that of the outcome; leave it out unless it was known before the decision; a value that is measured with the outcome hides the effect of the action",
    ),
    Mistake(
        "A state that says which action was taken",
        warn(columns_of=dose_of),
        "unsafe: leaks: 'temperature' says which action was taken; leave it out unless it was known before the decision",
    ),
    Mistake(
        "A range that drops a third of the outcomes",
        warn(lambda steps, action: steps, "range = [0, 500]\n"),
        "look: plausible ranges: values outside the plausible range of their column are implausible and count as missing: 37.9 % of 'steps' (303 values); check the range of 'steps' in the study: is it in the unit of the column?",
    ),
    Mistake(
        "A range in another unit than the outcome",
        warn(lambda steps, action: steps, "range = [0, 100]\n"),
        "unsafe: plausible ranges: values outside the plausible range of their column are implausible and count as missing: 99.1 % of 'steps' (793 values); check the range of 'steps' in the study: is it in the unit of the column?",
    ),
    Mistake(
        "Probabilities that were not used",
        lambda: "\n".join(list_warnings(check_logs(unbalanced()))),
        "unsafe: balance: actions follow 'mood' beyond their stated probabilities: 'send' was chosen at 69 % of decision points where it is 1 (stated: 50 %) and at 29 % of decision points where it is 0 (stated: 50 %); either the stated probabilities are not those that were used (log those), or the variable was measured after the decision (leave it out); until then effects and values are biased",
    ),
]
