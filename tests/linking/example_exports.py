"""Small exports in the form of every platform, made up; each writes itself into a folder and says what is in it."""

from dataclasses import dataclass, field

QUALTRICS = """\
StartDate,EndDate,Status,Progress,Duration (in seconds),Finished,RecordedDate,ResponseId,ExternalReference,Q1,Q2
Start Date,End Date,Response Type,Progress,Duration (in seconds),Finished,Recorded Date,Response ID,Reference,"How are
you?",Where?
"{""ImportId"":""startDate"",""timeZone"":""America/Denver""}","{""ImportId"":""endDate"",""timeZone"":""America/Denver""}",\
"{""ImportId"":""status""}","{""ImportId"":""progress""}","{""ImportId"":""duration""}","{""ImportId"":""finished""}",\
"{""ImportId"":""recordedDate"",""timeZone"":""America/Denver""}","{""ImportId"":""_recordId""}",\
"{""ImportId"":""externalDataReference""}","{""ImportId"":""QID1""}","{""ImportId"":""QID2_TEXT""}"
2026-03-01 08:00:00,2026-03-01 08:02:10,0,100,130,1,2026-03-01 08:02:11,R_1a,p01,4,"home, alone"
2026-03-01 20:00:00,2026-03-01 20:01:00,0,100,60,1,2026-03-01 20:01:01,R_1b,p01,,
2026-03-02 08:00:00,2026-03-02 08:01:00,0,40,60,0,2026-03-09 08:01:00,R_2a,p02,2,work
2026-03-02 09:00:00,2026-03-02 09:01:00,1,100,60,1,2026-03-02 09:01:01,R_3a,,5,preview
"""
REDCAP = """\
record_id,redcap_event_name,redcap_repeat_instrument,redcap_repeat_instance,age,moved___1,moved___2,baseline_complete,\
ema_timestamp,stress,note,ema_complete,visit_date,weight,visit_complete
1,start_arm_1,,,44,0,1,2,,,,0,2026-03-01,80.5,2
1,start_arm_1,ema,1,,0,0,,2026-03-02 08:15:00,3,fine,2,,,
1,start_arm_1,ema,2,,0,0,,[not completed],5,,0,,,
2,start_arm_1,,,51,0,0,2,,,,0,,,0
3,start_arm_1,,,,0,0,0,,,,0,,,0
"""
FITABASE_NARROW = """\
Id,ActivityMinute,Steps
1503960366,4/12/2016 12:00:00 AM,0
1503960366,4/12/2016 12:01:00 AM,17
1503960366,4/12/2016 1:02:00 PM,
1624580081,4/12/2016 12:00:00 AM,5
"""
FITABASE_WIDE = (
    "Id,ActivityHour," + ",".join(f"Steps{minute:02d}" for minute in range(60)) + "\n"
    "1503960366,4/13/2016 11:00:00 PM," + ",".join(str(minute) if minute != 7 else "" for minute in range(60)) + "\n"
)
FITABASE_HEART = "Id,Time,Value\n2022484408,4/12/2016 7:21:00 AM,97\n2022484408,4/12/2016 7:21:05 AM,102\n"


@dataclass(frozen=True)
class Example:
    profile: str
    files: dict[str, str | bytes]
    streams: dict[str, int]
    """Rows of every stream."""
    left_out: dict[str, int] = field(default_factory=dict)

    def write(self, folder):
        """The only file, or the folder of all."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return folder if len(self.files) > 1 or "/" in next(iter(self.files)) else folder / next(iter(self.files))


EXAMPLES = {
    "qualtrics": Example("qualtrics", {"a.csv": QUALTRICS}, {"survey": 3}, {"rows without a participant": 1}),
    "redcap": Example(
        "redcap",
        {"b.csv": REDCAP},
        {"ema": 1, "visit": 1},
        {
            "rows of instrument 'baseline', which has no column of dates": 2,
            "rows without a time": 1,
            "rows without an answer of any instrument": 1,
        },
    ),
    "fitabase": Example(
        "fitabase",
        {"c/narrow.csv": FITABASE_NARROW, "c/wide.csv": FITABASE_WIDE, "c/heart.csv": FITABASE_HEART},
        {"minuteSteps": 64, "heartrate": 2},
    ),
}
