"""Small exports in the form of every platform, made up; each writes itself into a folder and says what is in it."""

import gzip
import json
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
MPATH = """\
connectionId;legacyCode;alias;scheduledBeepId;sentBeepId;questionListName;timeStampScheduled;timeStampSent;timeStampStart;\
timeStampStop;timeZoneOffset;deltaUTC;stress;pain;why
228325;!9v@a;"ann";-1;1;"Morning";;1772352000;1772352010;1772352060;-3600;1;4;2,5;"a \\"bad\\"; long night"
228325;!9v@a;"ann";28626776;2;"Evening";1772391600;1772391601;1772391700;1772391760;-3600;1;3
228325;!9v@a;"ann";28626777;3;"Evening";1772395200;1772395201;;;-3600;1;;;
228999;!7x@a;"bo";28626778;4;"Morning";1772352000;1772352000;1772352030;1772352090;18000;-5;;0,25;
"""
MPATH_META = """\
columnName;fullQuestion;typeQuestion;typeAnswer;fullQuestion_mixed;typeQuestion_mixed;typeAnswer_mixed
"stress";"How stressed are you?";"sliderNegPos";"int";0;0;0
"pain";"Pain?";"sliderNegPos";"double";0;0;0
"""
BEIWE_GPS = """\
timestamp,UTC time,latitude,longitude,altitude,accuracy
1772352000250,2026-03-01T08:00:00.250,43.33558,-74.1021,-4.3,19.669
1772352010250,2026-03-01T08:00:10.250,43.3356,-74.1021,,10
"""
BEIWE_TIMINGS = """\
timestamp,UTC time,question id,survey id,question type,question text,question answer options,answer,event
1772352000000,2026-03-01T08:00:00.000,q1,s1,radio_button,How are you?,bad;good,good,changed
1772352005000,2026-03-01T08:00:05.000,q2,s1,slider,Stress?,0;10,7,changed
1772352007000,2026-03-01T08:00:07.000,,s1,,,,,submitted
"""
RADAR = """\
key.projectId,key.userId,key.sourceId,value.time,value.timeReceived,value.batteryLevel
trial,u-1,phone,1.58021982003E9,1.5802198201E9,0.81
trial,u-1,phone,1580219880.5,1580219881.0,
"""
RADAR_WINDOW = "key.projectId,key.userId,key.start,key.end,value.count\ntrial,u-2,1580219820000,1580219830000,4\n"
MYDATAHELPS = """\
ParticipantID,ParticipantIdentifier,Type,DateTime,Value,Level,Mets
0a,MDH-1,steps,2026-03-01T08:00:00,12,,
0a,MDH-1,steps,2026-03-01T08:01:00,,,
0a,MDH-1,calories,2026-03-01T08:00:00,1.31,0,10
0b,MDH-2,heart,2026-03-01T09:00:00,71,,
0b,,heart,2026-03-01T09:01:00,72,,
"""
MYDATAHELPS_LOG = (
    "ParticipantIdentifier,StartDate,EndDate,ActivityName,Steps\n"
    "MDH-1,2026-03-01T18:05:08-05:00,2026-03-01T18:23:02-05:00,Walk,1575\n"
)
FITBIT_STEPS = json.dumps([{"dateTime": f"03/01/26 08:{minute:02d}:00", "value": str(minute)} for minute in range(3)])
FITBIT_HEART = json.dumps([{"dateTime": "03/01/26 08:00:05", "value": {"bpm": 70, "confidence": 2}}])
FITBIT_DAY = json.dumps([{"dateTime": "03/01/26 00:00:00", "value": "713"}])
FITBIT_SLEEP = json.dumps([{"logId": 1, "dateOfSleep": "2026-03-01", "startTime": "2026-02-28T23:46:00.000"}])
APPLE = """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE HealthData [
<!ELEMENT HealthData (ExportDate,Me,(Record|Correlation|Workout|ActivitySummary)*)>
<!ATTLIST Record type CDATA #REQUIRED>
]>
<HealthData locale="en_US">
 <ExportDate value="2026-03-08 10:00:00 -0700"/>
 <Record type="HKQuantityTypeIdentifierStepCount" sourceName="Ann’s Watch" unit="count" \
creationDate="2026-03-01 08:05:00 -0700" \
startDate="2026-03-01 08:00:00 -0700" endDate="2026-03-01 08:05:00 -0700" value="120"/>
 <Record type="HKQuantityTypeIdentifierStepCount" sourceName="Ann’s iPhone" unit="count" \
creationDate="2026-03-01 08:09:00 -0700" \
startDate="2026-03-01 08:01:00 -0700" endDate="2026-03-01 08:09:00 -0700" value="98">
  <MetadataEntry key="k" value="v"/>
 </Record>
 <Record type="HKCategoryTypeIdentifierSleepAnalysis" sourceName="Ann’s Watch" startDate="2026-03-01 23:00:00 -0700" \
endDate="2026-03-02 06:30:00 -0700" value="HKCategoryValueSleepAnalysisAsleepCore"/>
 <Record type="HKQuantityTypeIdentifierBloodPressureSystolic" sourceName="Cuff" unit="mmHg" \
startDate="2026-03-02 07:00:00 -0700" endDate="2026-03-02 07:00:00 -0700" value="118"/>
 <Correlation type="HKCorrelationTypeIdentifierBloodPressure" startDate="2026-03-02 07:00:00 -0700">
  <Record type="HKQuantityTypeIdentifierBloodPressureSystolic" sourceName="Cuff" unit="mmHg" \
startDate="2026-03-02 07:00:00 -0700" endDate="2026-03-02 07:00:00 -0700" value="118"/>
 </Correlation>
 <Workout workoutActivityType="HKWorkoutActivityTypeWalking" duration="31.5" durationUnit="min" sourceName="Ann’s Watch" \
startDate="2026-03-02 17:00:00 -0700" endDate="2026-03-02 17:31:30 -0700"/>
 <ActivitySummary dateComponents="2026-03-01" activeEnergyBurned="300"/>
</HealthData>
"""
LAMP_SENSORS = json.dumps(
    {
        "U1": [
            {
                "timestamp": 1772352000000,
                "sensor": "lamp.steps",
                "data": {"type": "step_count", "value": 12, "unit": "count"},
            },
            {"timestamp": 1772352000500, "sensor": "lamp.gps", "data": {"latitude": 42.5, "longitude": -71, "timestamp": 5}},
        ],
        "U2": [{"timestamp": 1772352060000, "sensor": "lamp.steps", "data": {"type": "step_count", "value": None}}],
    }
)
LAMP_ACTIVITIES = json.dumps(
    [
        {
            "timestamp": 1772352000000,
            "duration": 9000,
            "activity": "mood",
            "static_data": {},
            "temporal_slices": [
                {"item": "Stressed?", "value": 3, "type": None, "duration": 4000, "level": None},
                {"item": "Where?", "value": "home", "type": None, "duration": 5000, "level": None},
            ],
        },
        {"timestamp": None, "duration": 1, "activity": "mood", "static_data": {}, "temporal_slices": []},
    ]
)
ORALYTICS = """\
user_id,user_decision_t,decision_time,action,prob,quality,state_tod
robas+1,0,2026-03-01 08:00:00,1,0.6,120.5,0
robas+1,1,2026-03-01 20:00:00,0,0.35,,1
"""
JUSTIN = """\
id,user_id,decision_idx,timestamp,action,action_prob,state,context,outcome
1,u1,0,2026-03-01T08:00:00Z,1,0.5,"[23, 1]","{""temperature"": 23, ""place"": ""home""}","{""clicks"": 4}"
2,u1,1,2026-03-01T20:00:00Z,0,0.5,"[19, 1]","{""temperature"": 19}",
"""


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
            "rows of instrument 'baseline', which has no column of times or dates": 2,
            "rows without a time": 1,
            "rows without an answer of any instrument": 1,
        },
    ),
    "fitabase": Example(
        "fitabase",
        {"c/narrow.csv": FITABASE_NARROW, "c/wide.csv": FITABASE_WIDE, "c/heart.csv": FITABASE_HEART},
        {"minuteSteps": 64, "heartrate": 2},
    ),
    "m-path": Example(
        "m-path",
        {"m/basic.csv": MPATH, "m/meta.csv": MPATH_META},
        {"Morning": 2, "Evening": 1},
        {"beeps without an answer (no timeStampStop)": 1, "rows of the meta data, which describe columns": 2},
    ),
    "m-path alone": Example(
        "m-path", {"basic.csv": MPATH}, {"Morning": 2, "Evening": 1}, {"beeps without an answer (no timeStampStop)": 1}
    ),
    "beiwe": Example(
        "beiwe",
        {
            "43l6b8dp/gps/2026-03-01 08_00_00+00_00.csv": BEIWE_GPS,
            "43l6b8dp/survey_timings/587442edf7321c14da193487/2026-03-01 08_00_00+00_00.csv": BEIWE_TIMINGS,
            "9xl6b8dq/gps/2026-03-01 08_00_00+00_00.csv": BEIWE_GPS,
            "9xl6b8dq/gps/2026-03-01 09_00_00+00_00.csv": BEIWE_GPS.splitlines()[0],
        },
        {"gps": 4, "survey_timings": 3},
    ),
    "radar-base": Example(
        "radar-base",
        {
            "trial/u-1/android_phone_battery_level/20200128_1300.csv.gz": gzip.compress(RADAR.encode()),
            "trial/u-2/android_window/20200128_1300.csv": RADAR_WINDOW,
        },
        {"android_phone_battery_level": 2, "android_window": 1},
    ),
    "mydatahelps": Example(
        "mydatahelps",
        {"fitbitintradaycombined_20260301_20260302.csv": MYDATAHELPS},
        {"steps": 2, "calories": 1, "heart": 1},
        {"rows without a participant": 1},
    ),
    "mydatahelps log": Example(
        "mydatahelps", {"FitbitActivityLogs_20260301.csv": MYDATAHELPS_LOG}, {"FitbitActivityLogs": 1}
    ),
    "fitbit": Example(
        "fitbit",
        {
            "P01/Takeout/Fitbit/Global Export Data/steps-2026-03-01.json": FITBIT_STEPS,
            "P01/Takeout/Fitbit/Global Export Data/heart_rate-2026-03-01.json": FITBIT_HEART,
            "P01/Takeout/Fitbit/Global Export Data/sedentary_minutes-2026-03-01.json": FITBIT_DAY,
            "P01/Takeout/Fitbit/Global Export Data/swim_strokes-2026-03-01.json": FITBIT_DAY,
            "P01/Takeout/Fitbit/Global Export Data/sleep-2026-03-01.json": FITBIT_SLEEP,
        },
        {"steps": 3, "heart_rate": 1, "sedentary_minutes": 1},
        {
            "entries of swim_strokes-2026-03-01.json, whose name says no known measure": 1,
            "lines of sleep-2026-03-01.json, which is in another form": 1,
        },
    ),
    "apple-health": Example(
        "apple-health",
        {"P02/apple_health_export/export.xml": APPLE},
        {"StepCount": 2, "SleepAnalysis": 1, "BloodPressureSystolic": 1, "Workout": 1},
        {"records that a Correlation repeats": 1, "elements ActivitySummary, which are not read": 1},
    ),
    "mindlamp": Example(
        "mindlamp",
        {"lamp/sensor_event.json": LAMP_SENSORS, "U3/activity_event.json": LAMP_ACTIVITIES},
        {"steps": 2, "gps": 1, "activity": 2},
        {"rows without a time": 1},
    ),
    "oralytics": Example("oralytics", {"o.csv": ORALYTICS}, {"decisions": 2}),
    "justin": Example("justin", {"j.csv": JUSTIN}, {"decisions": 2}),
}
