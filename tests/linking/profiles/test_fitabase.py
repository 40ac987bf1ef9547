from datetime import datetime, timedelta

import pyarrow.compute as pc

from surefoot.linking.exports import read_export
from tests.linking.example_exports import EXAMPLES, FITABASE_NARROW, FITABASE_WIDE


def test_wide_and_narrow_minutes_are_one_stream_and_empty_is_missing(tmp_path):
    export = read_export(EXAMPLES["fitabase"].write(tmp_path))
    steps = export.streams["minuteSteps"]
    narrow = steps.slice(0, 4)
    assert narrow["Steps"].to_pylist() == [0, 17, None, 5]
    assert narrow["time"].to_pylist()[2] == datetime(2016, 4, 12, 13, 2)
    assert narrow["participant"].to_pylist()[-1] == "1624580081"
    wide = steps.slice(4)
    start = datetime(2016, 4, 13, 23)
    assert wide["time"].to_pylist() == [start + timedelta(minutes=minute) for minute in range(60)]
    assert wide["Steps"].to_pylist() == [minute if minute != 7 else None for minute in range(60)]
    assert export.streams["heartrate"]["Value"].to_pylist() == [97, 102]


def test_the_file_of_one_participant_names_it(tmp_path):
    text = FITABASE_NARROW.replace("Id,", "").replace("1503960366,", "").replace("1624580081,", "")
    (tmp_path / "Site_07_minuteStepsNarrow_20160412_20160512.csv").write_text(text)
    export = read_export(tmp_path)
    assert set(export.streams["minuteSteps"]["participant"].to_pylist()) == {"Site_07"}


def test_hours_and_days(tmp_path):
    (tmp_path / "h.csv").write_text("Id,ActivityHour,StepTotal\n7,4/12/2016 12:00:00 AM,373\n")
    (tmp_path / "d.csv").write_text("Id,ActivityDate,TotalSteps,TotalDistance\n7,4/12/2016,13162,8.5\n")
    streams = read_export(tmp_path).streams
    assert streams["hourlyStepTotal"]["StepTotal"].to_pylist() == [373]
    assert streams["dailyTotalSteps"]["TotalDistance"].to_pylist() == [8.5]


def test_a_wide_hour_without_an_hour_is_counted_in_minutes(tmp_path):
    (tmp_path / "w.csv").write_text(
        FITABASE_WIDE + FITABASE_WIDE.splitlines()[1].replace("4/13/2016 11:00:00 PM", "") + "\n"
    )
    export = read_export(tmp_path / "w.csv")
    assert export.left_out == {"rows without a time": 60}
    assert pc.max(export.streams["minuteSteps"]["Steps"]).as_py() == 59
