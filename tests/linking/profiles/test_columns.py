import pyarrow as pa
import pytest

from surefoot.linking.profiles.columns import join_types, type_cells


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["4", " 12 ", "", "NA"], pa.int64(), [4, 12, None, None]),
        (["0.5", "-1e3", "7"], pa.float64(), [0.5, -1000.0, 7.0]),
        (["007", "12"], pa.string(), ["007", "12"]),
        (["12345678901234567", "1"], pa.string(), ["12345678901234567", "1"]),
        (["12345678901234567.5"], pa.string(), ["12345678901234567.5"]),
        (["4", "many"], pa.string(), ["4", "many"]),
        (["", "NA"], pa.null(), [None, None]),
        (["2026-13-01 08:00"], pa.string(), ["2026-13-01 08:00"]),
    ],
)
def test_texts_get_the_type_that_keeps_them(texts, kind, values):
    cells = type_cells(pa.array(texts))
    assert cells.type == kind
    assert cells.to_pylist() == values


def test_columns_of_several_files_get_one_type():
    assert join_types([pa.int64(), pa.null(), pa.float64()]) == pa.float64()
    assert join_types([pa.int64(), pa.string()]) == pa.string()
    assert join_types([pa.null()]) == pa.string()
    assert join_types([pa.timestamp("us"), pa.null()]) == pa.timestamp("us")
