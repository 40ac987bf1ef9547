"""Who is fitted with whom, from which files."""

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from surefoot import fitting
from surefoot.data.log_table import LogFile
from surefoot.fitting import parts
from tests.fitting.test_fitting import one_file_per, study, table  # noqa: F401 - a fixture


def test_a_part_needs_few_files_when_people_are_in_one_file_each(table, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(parts, "PART_ROWS", 130)
    folder = one_file_per(table, tmp_path / "people", "participant", 6)
    for late in range(1, 6):
        # People with a row in the first file and one in another, far from it, must not make every part read the first.
        for file in (0, late):
            path = folder / f"{file:02d}.parquet"
            rows = pq.read_table(path)
            more = (
                rows.slice(0, 1).set_column(0, "participant", pa.array([100 + late])).set_column(1, "time", pa.array([file]))
            )
            pq.write_table(pa.concat_tables([rows, more]), path)
    plan = parts.LogGroups.scan(study(), folder)
    assert plan.people == 17
    assert plan.groups[-1].participants.tolist()[-4:] == [102, 103, 104, 105]
    holders = [[file.path.name for file, _ in group.files] for group in plan.groups]
    assert sum("00.parquet" in files for files in holders) <= 3
    assert all(len(files) <= 2 for files in holders[:-1])


@pytest.mark.parametrize("limit", [90, 200, 10**6, np.inf])
def test_parts_keep_to_files_and_to_their_size(limit):
    """Small and large files one after the other; 7 people are where one file ends and the next begins."""
    people = np.split(np.arange(300), [3, 150, 152, 153, 200, 201, 240])
    ids = [np.append(own, own[-1] + 1) if own[-1] < 299 else own for own in people]
    counts = [np.full(len(own), 10) for own in ids]
    groups = parts.divide_people(ids, counts, limit)
    assert sorted(np.concatenate([people for people, _ in groups]).tolist()) == list(range(300))
    assert all(10 * len(people) <= limit + 20 for people, _ in groups)
    for people, files in groups:
        assert files == [number for number, ids_of_file in enumerate(ids) if np.isin(ids_of_file, people).any()]
    if limit == 200:
        assert max(len(files) for _, files in groups) <= 4
        assert len(groups) < 1.3 * 10 * sum(map(len, ids)) / limit


def test_what_is_sent_of_a_group_does_not_grow_with_the_folder(table, tmp_path):  # noqa: F811
    """Its rows keep their numbers in the whole input."""
    plan = parts.LogGroups.scan(study(), one_file_per(table, tmp_path / "logs", "participant", 4))
    (everybody,) = plan.groups
    plan.groups = [everybody, parts.Group(np.array([1, 3, 5, 7, 11]), (everybody.files[1], everybody.files[3]))]
    alone = pickle.loads(pickle.dumps(plan.select([1])))  # noqa: S301 - as it is sent
    assert [file.path.name for file, _ in alone.groups[0].files] == ["01.parquet", "03.parquet"]
    assert_array_equal(alone.read(0).row, plan.read(1).row)
    assert_array_equal(alone.read(0).logs.outcome, plan.read(1).logs.outcome)


def test_groups_of_one_file_are_one_task():
    """A worker reads the file once; groups of several files, and very many groups, are tasks of their own."""
    holders = [(0,), (0,), (0, 1), (1,), (1,), *[(2,)] * 9]
    files = [LogFile(Path(f"{number}.parquet")) for number in range(3)]
    held = [tuple((files[file], 0) for file in numbers) for numbers in holders]
    groups = [parts.Group(np.array([number]), files_of_group) for number, files_of_group in enumerate(held)]
    plan = parts.LogGroups(study(), None, groups)
    numbers = []

    def run(tasks, work):
        numbers.extend(task[0] for task in tasks)
        return ((task, None) for task in tasks)

    done = list(fitting._fit_groups(plan, [0, 1, 2, 4, *range(5, 14)], None, "dask", run))
    assert numbers == [[0, 1], [2], [4], [5, 6, 7, 8], [9, 10, 11, 12], [13]]
    assert done == [0, 1, 2, 4, *range(5, 14)]
