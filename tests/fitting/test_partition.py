"""Who is fitted with whom, from which files."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from surefoot.fitting import partition
from tests.fitting.test_fitting import one_file_per, study, table  # noqa: F401 - a fixture


def test_a_part_needs_few_files_when_people_are_in_one_file_each(table, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(partition, "PART_ROWS", 130)
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
    made = partition.Partition.of(study(), folder)
    assert made.people == 17
    assert made.parts[-1].tolist()[-4:] == [102, 103, 104, 105]
    assert sum(0 in files for files in made.holders) <= 3
    assert all(len(files) <= 2 for files in made.holders[:-1])


@pytest.mark.parametrize("limit", [90, 200, 10**6, np.inf])
def test_parts_keep_to_files_and_to_their_size(limit):
    """Small and large files one after the other; 7 people are where one file ends and the next begins."""
    people = np.split(np.arange(300), [3, 150, 152, 153, 200, 201, 240])
    ids = [np.append(own, own[-1] + 1) if own[-1] < 299 else own for own in people]
    counts = [np.full(len(own), 10) for own in ids]
    parts, holders = partition._divide(ids, counts, limit)
    assert sorted(np.concatenate(parts).tolist()) == list(range(300))
    assert all(10 * len(part) <= limit + 20 for part in parts)
    for part, files in zip(parts, holders, strict=True):
        assert files.tolist() == [number for number, own in enumerate(ids) if np.isin(own, part).any()]
    if limit == 200:
        assert max(map(len, holders)) <= 4
        assert len(parts) < 1.3 * 10 * sum(map(len, ids)) / limit


def test_what_is_sent_of_a_part_does_not_grow_with_the_folder(table, tmp_path):  # noqa: F811
    """Its rows keep their numbers in the whole input."""
    made = partition.Partition.of(study(), one_file_per(table, tmp_path / "logs", "participant", 4))
    made.parts, made.holders = [part for part in made.parts for _ in range(2)], made.holders * 2
    made.holders[1] = np.array([1, 3])
    alone = made.only([1])
    assert [file.path for file in alone.files] == [made.files[1].path, made.files[3].path]
    made.parts[1] = alone.parts[0] = np.array([1, 3, 5, 7, 11])
    assert_array_equal(alone.read(0).row, made.read(1).row)
    assert_array_equal(alone.read(0).logs.reward, made.read(1).logs.reward)


def test_parts_of_one_file_are_one_piece_of_work():
    """Which is read once then; not those that need others, too, nor very many."""
    made = partition.Partition(study(), None, 0, [], [], [], [np.array(one) for one in ([0], [0], [0, 1], [1], [1])])
    made.holders += [np.array([2])] * 9
    assert made.group([0, 1, 2, 4, *range(5, 14)]) == [[0, 1], [2], [4], [5, 6, 7, 8], [9, 10, 11, 12], [13]]
