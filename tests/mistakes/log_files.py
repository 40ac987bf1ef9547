"""Mistakes in log files."""

import pyarrow as pa

import surefoot as sf
from tests.mistakes.catalogue import Mistake
from tests.mistakes.given import (
    FIRST,
    HEADER,
    LOGS,
    SECOND,
    STUDY,
    THIRD,
    cell,
    coded,
    column,
    packed,
    read,
    tables,
    typed,
)

NUMBERS = LOGS.replace("2020-01-01T08:00:00", "1").replace("2020-01-02T08:00:00", "2").replace("2020-01-01T09:00:00", "1")
EUROPEAN = '[file]\nseparator = ";"\ndecimal = ","\n' + STUDY
GERMAN_TIMES = '[file]\ntime_format = "%d.%m.%Y %H:%M"\n' + STUDY
SENDING = STUDY.replace('probability = "p"', 'probability = "p"\nprobability_of = "sending"')

MISTAKES = [
    Mistake(
        "A file that is not there",
        lambda: sf.Study.parse(STUDY).read("logs.csv"),
        "logs.csv: there is no such file; check the name and the folder",
    ),
    Mistake(
        "A file of another program",
        read("x", name="logs.sas7bdat"),
        "logs.sas7bdat: logs are read from .csv, .csv.gz, .tsv, .tsv.gz, .txt, .txt.gz, .parquet, .xlsx or a folder of .parquet; convert or rename the file",
    ),
    Mistake(
        "The study where the logs belong",
        read(STUDY, name="study.toml"),
        "study.toml: is a study, not logs; write surefoot fit LOGS --study study.toml",
    ),
    Mistake(
        "A folder without Parquet files",
        tables(),
        "logs: a folder without Parquet files; give a folder that has some, or one file",
    ),
    Mistake(
        "An empty file", read(""), "logs.csv: the file is empty; it needs a header line and at least one decision point"
    ),
    Mistake(
        "A header and nothing else", read(HEADER), "logs.csv: the table has no rows; give it at least one decision point"
    ),
    Mistake(
        "A zip archive called .csv",
        read(b"PK\x03\x04 and so on"),
        "logs.csv: is a zip archive (an Excel workbook is one too), not text; unpack it, or name it .xlsx if it is a workbook",
    ),
    Mistake(
        "An old Excel workbook called .csv",
        read(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"),
        "logs.csv: is an old Excel workbook (.xls), not text; save it as .xlsx or .csv",
    ),
    Mistake(
        "A Parquet file called .csv", read(b"PAR1 and so on"), "logs.csv: is a Parquet file, not text; name it .parquet"
    ),
    Mistake("A packed file called .csv", read(packed(LOGS)), "logs.csv: is compressed; name it .csv.gz or .tsv.gz"),
    Mistake(
        "A SQLite database called .csv",
        read(b"SQLite format 3\0"),
        "logs.csv: is a SQLite database, not text; export the table as .csv",
    ),
    Mistake(
        "A packed file that was cut short",
        read(packed(LOGS)[:60], name="logs.csv.gz"),
        "logs.csv.gz: cannot be unpacked (Compressed file ended before the end-of-stream marker was reached); compress it again with gzip",
    ),
    Mistake(
        "A damaged Parquet file",
        read(b"PAR1 and so on", name="logs.parquet"),
        "logs.parquet: cannot be read as Parquet (Parquet magic bytes not found in footer. Either the file is corrupted or this is not a parquet file.)",
    ),
    Mistake(
        "A damaged Excel workbook",
        read(b"PK\x03\x04 and so on", name="logs.xlsx"),
        "logs.xlsx: cannot be read as an Excel workbook (File is not a zip file)",
    ),
    Mistake(
        "Semicolons between the columns",
        read(LOGS.replace(",", ";")),
        'logs.csv: line 1: the columns are separated by semicolons, not by commas; write separator = ";" in [file] (surefoot init finds it)',
    ),
    Mistake(
        "Tabs between the columns",
        read(LOGS.replace(",", "\t")),
        'logs.csv: line 1: the columns are separated by tabs, not by commas; write separator = "\\t" in [file] (surefoot init finds it)',
    ),
    Mistake(
        "Bars between the columns",
        read(LOGS.replace(",", "|")),
        'logs.csv: line 1: the columns are separated by bars, not by commas; write separator = "|" in [file] (surefoot init finds it)',
    ),
    Mistake(
        "Decimal commas without quotes",
        cell("4.5", "4,5"),
        "logs.csv: line 2: 10 fields where the header has 9; write decimals with a point, and put quotes around text with commas",
    ),
    Mistake(
        "Decimal commas in quotes",
        cell("4.5", '"4,5"'),
        "logs.csv: line 2, column 'mood', participant 'ann': '4,5' is not a number; write decimals with a point and no thousands separators, or decimal = ',' in [file]",
    ),
    Mistake(
        "A decimal point where the study says commas",
        read(LOGS.replace(",", ";"), EUROPEAN),
        "logs.csv: line 2, column 'mood', participant 'ann': '4.5' is not a number with a decimal comma (and 2 more rows); write it with a comma, or decimal = '.' in [file]\nlogs.csv: line 2, column 'p', participant 'ann': '0.5' is not a number with a decimal comma (and 1 more row); write it with a comma, or decimal = '.' in [file]",
    ),
    Mistake(
        "A percent sign",
        cell("0.5,12", "50 %,12"),
        "logs.csv: line 2, column 'p', participant 'ann': '50 %' is not a number; write the number alone, or percent = ['p'] in [file]",
    ),
    Mistake(
        "A byte of another encoding",
        read(LOGS.encode().replace(b"home", b"ho\x99me", 1)),
        "logs.csv: line 2: byte 0x99 is not UTF-8; save the file as UTF-8, or name its encoding in [file] (surefoot init finds it)",
    ),
    Mistake(
        "A file in UTF-16",
        read(LOGS.encode("utf-16")),
        'logs.csv: line 1: the file is written in UTF-16; save it as UTF-8, or write encoding = "utf-16" in [file]',
    ),
    Mistake(
        "A zero byte", cell("home", "ho\0me"), "logs.csv: line 2: a zero byte, which no text holds; save the file as text"
    ),
    Mistake(
        "A row cut short",
        read(HEADER + FIRST + "ann,2020-01-02T08:00:00,6.5\n"),
        "logs.csv: line 3: 3 fields where the header has 9; complete the row or delete it, or write ragged = true in [file] if its last fields are missing",
    ),
    Mistake(
        "Separators at the end of a row",
        read(HEADER + FIRST.replace("\n", ",,\n") + SECOND),
        "logs.csv: line 2: 11 fields where the header has 9; delete the separators at its end, or write ragged = true in [file]",
    ),
    Mistake(
        "Row names of R",
        read(HEADER + "1," + FIRST + "2," + SECOND),
        "logs.csv: line 1: the header has 9 fields and every row below 10; give the first column a name (R writes row names without one)",
    ),
    Mistake(
        "A line above the header",
        read("Export of 1 May\n" + LOGS),
        "logs.csv: line 1: one field ('Export of 1 May') where line 2 has 9; delete the lines above the header",
    ),
    Mistake(
        "The header of Qualtrics",
        read(HEADER + HEADER.upper() + ",".join('"{""ImportId"":""QID1""}"' for _ in range(9)) + "\n" + FIRST),
        "logs.csv: line 3: belongs to the header, as Qualtrics writes it; write header_rows = 3 in [file] (surefoot init finds it)",
    ),
    Mistake(
        "A header in the middle, where two files were put together",
        read(LOGS + HEADER + SECOND.replace("ann", "eve")),
        "logs.csv: line 5: a second header; delete that line",
    ),
    Mistake(
        "A point for a missing number",
        cell("4.5", "."),
        "logs.csv: line 2, column 'mood', participant 'ann': '.' is not a number; leave it empty, or write missing = ['.'] in [columns] if it stands for missing",
    ),
    Mistake(
        "Commas between thousands",
        cell("0.5,250", '0.5,"1,250"'),
        "logs.csv: line 3, column 'steps', participant 'ann': '1,250' is not a number; write it without thousands separators, or thousands = ',' in [file]",
    ),
    Mistake(
        "A line with which Excel is told the separator",
        read("sep=,\n" + LOGS),
        "logs.csv: line 1: 'sep=,' is a hint for Excel, not the header; delete that line",
    ),
    Mistake(
        "A unit behind the number",
        cell("4.5", "4.5 points"),
        "logs.csv: line 2, column 'mood', participant 'ann': '4.5 points' is not a number; write the number alone, without a unit or a remark",
    ),
    Mistake(
        "A time of day without a day",
        cell("2020-01-02T08:00:00", "08:00"),
        "logs.csv: line 3, column 'time', participant 'ann': '08:00' is a time of day without a day; write both in one column (2015-07-22T16:30:00)",
    ),
    Mistake(
        "A column of days where a day has several decision points",
        read(HEADER + "".join(FIRST.replace("ann", name) for name in "abc" for _ in range(9))),
        "logs.csv: line 3, column 'time', participant 'a': a second decision point at 2020-01-01T08:00:00 (and 23 more rows); name a column that tells a participant's decision points apart (day and slot must be one number or time)",
    ),
    Mistake(
        "A row with text that holds a comma",
        cell("home", "home, sweet home"),
        "logs.csv: line 2: 10 fields where the header has 9; write decimals with a point, and put quotes around text with commas",
    ),
    Mistake(
        "A quote that is never closed",
        cell("home", '"home'),
        "logs.csv: line 2: 5 fields where the header has 9; a quote is opened there and never closed",
    ),
    Mistake(
        "Two columns of one name",
        read(LOGS.replace("mood", "steps", 1)),
        "logs.csv: line 1: two columns are called 'steps'; rename one",
    ),
    Mistake(
        "A column with a typing mistake",
        read(LOGS.replace("mood", "moood", 1)),
        "logs.csv: there is no column 'mood' (did you mean 'moood'?); the table has ['participant', 'time', 'moood', 'rain', 'place', 'available', 'sent', 'p', 'steps']",
    ),
    Mistake(
        "Columns in capitals",
        read(LOGS.replace(HEADER, HEADER.upper())),
        "logs.csv: there is no column 'participant' (did you mean 'PARTICIPANT'?); the table has ['PARTICIPANT', 'TIME', 'MOOD', 'RAIN', 'PLACE', 'AVAILABLE', 'SENT', 'P', 'STEPS']",
    ),
    Mistake(
        "A participant without an id",
        cell("ann,2020-01-01", ",2020-01-01"),
        "logs.csv: line 2, column 'participant': missing; every decision point needs one (fill it in or drop the row)",
    ),
    Mistake(
        "A decision point without a time",
        cell("ann,2020-01-01T08:00:00", "ann,"),
        "logs.csv: line 2, column 'time', participant 'ann': missing; every decision point needs one (fill it in or drop the row)",
    ),
    Mistake(
        "The same decision point twice",
        read(LOGS + FIRST),
        "logs.csv: line 5, column 'time', participant 'ann': a second decision point at 2020-01-01T08:00:00; drop the duplicate or correct its time",
    ),
    Mistake(
        "A time that is a word",
        cell("2020-01-02T08:00:00", "tomorrow"),
        "logs.csv: line 3, column 'time', participant 'ann': 'tomorrow' is not a time; write times as numbers or in ISO 8601 (2015-07-22T16:30:00)",
    ),
    Mistake(
        "A word among times that are numbers",
        read(NUMBERS.replace("ann,2,", "ann,two,")),
        "logs.csv: line 3, column 'time', participant 'ann': 'two' is not a number, unlike the times before it; write all times as numbers, or all in ISO 8601",
    ),
    Mistake(
        "Times of a country that the study does not name",
        read(LOGS.replace("2020-01-01T", "01.01.2020 ").replace("2020-01-02T", "02.01.2020 ")),
        "logs.csv: line 2, column 'time', participant 'ann': '01.01.2020 08:00:00' is not a time in ISO 8601 (and 2 more rows); write ISO 8601 (2015-07-22T16:30:00), or time_format in [file] where all times have one format",
    ),
    Mistake(
        "Times that do not fit the study's format",
        read(LOGS, GERMAN_TIMES),
        "logs.csv: line 2, column 'time', participant 'ann': '2020-01-01T08:00:00' does not fit time_format '%d.%m.%Y %H:%M' (and 2 more rows); correct it, or the format in [file]",
    ),
    Mistake(
        "Some times with a zone and some without",
        cell("2020-01-02T08:00:00", "2020-01-02T08:00:00+01:00"),
        "logs.csv: line 3, column 'time', participant 'ann': '2020-01-02T08:00:00+01:00' has a time zone, unlike the rows before it; give all times a zone, or none",
    ),
    Mistake(
        "A word where a number is meant",
        cell("4.5", "fine"),
        "logs.csv: line 2, column 'mood', participant 'ann': 'fine' is not a number; correct it or leave it empty (missing)",
    ),
    Mistake(
        "Several words where numbers are meant",
        read(LOGS.replace("4.5", "fine").replace("6.5", "bad").replace("2.5", "fine")),
        "logs.csv: line 2, column 'mood', participant 'ann': 'fine' is not a number (and 1 more row); correct it or leave it empty (missing)\nlogs.csv: line 3, column 'mood', participant 'ann': 'bad' is not a number; correct it or leave it empty (missing)",
    ),
    Mistake(
        "An infinite number",
        cell("250", "inf"),
        "logs.csv: line 3, column 'steps', participant 'ann': inf is not finite; correct the value or leave it empty (missing)",
    ),
    Mistake(
        "Neither yes nor no",
        cell("yes", "perhaps"),
        "logs.csv: line 2, column 'rain', participant 'ann': 'perhaps' is neither yes nor no; write yes or no, true or false, 1 or 0",
    ),
    Mistake(
        "A number other than 0 and 1 where yes or no is meant",
        tables(column("rain", pa.array([1, 0, 2]))),
        "logs/0.parquet: row 2, column 'rain', participant 'bob': 2 is neither yes nor no; write 1 or 0",
    ),
    Mistake(
        "A level with a typing mistake",
        cell("home", "hoem"),
        "logs.csv: line 2, column 'place', participant 'ann': 'hoem' was never declared (did you mean 'home'?); declared levels are ['other', 'home']: add it, or leave the cell empty (missing)",
    ),
    Mistake(
        "A level that was never declared",
        cell("home", "moon"),
        "logs.csv: line 2, column 'place', participant 'ann': 'moon' was never declared; declared levels are ['other', 'home']: add it, or leave the cell empty (missing)",
    ),
    Mistake(
        "An action that was never declared",
        cell("1,1,0.5", "1,7,0.5"),
        "logs.csv: line 3, column 'sent', participant 'ann': action '7' was never declared; declared are ['nothing', 'send']: add it to the actions, or correct the row",
    ),
    Mistake(
        "No action at an available decision point",
        cell("1,1,0.5", "1,,0.5"),
        "logs.csv: line 3, column 'sent', participant 'ann': the action is missing at an available decision point; fill it in, or mark the participant as not available",
    ),
    Mistake(
        "An action at a decision point that was not available",
        cell("0,,,", "0,1,,"),
        "logs.csv: line 4, column 'sent', participant 'bob': action 1 at a decision point where the participant was not available; correct the action or the availability",
    ),
    Mistake(
        "No availability",
        cell("home,1,0", "home,,0"),
        "logs.csv: line 2, column 'available', participant 'ann': the availability is missing; write 1 (available) or 0 (not available)",
    ),
    Mistake(
        "Availability that is a word",
        cell("home,1,0", "home,maybe,0"),
        "logs.csv: line 2, column 'available', participant 'ann': 'maybe' is neither yes nor no; write yes or no, true or false, 1 or 0",
    ),
    Mistake(
        "A probability of 0",
        cell("1,1,0.5", "1,1,0"),
        "logs.csv: line 3, column 'p', participant 'ann': probability 0 is outside (0, 1]; log the probability of the action taken from 0 to 1 (percentages: [file] in the study), or leave it empty",
    ),
    Mistake(
        "Probabilities in percent",
        cell("1,1,0.5", "1,1,50"),
        "logs.csv: line 3, column 'p', participant 'ann': probability 50 is outside (0, 1]; log the probability of the action taken from 0 to 1 (percentages: [file] in the study), or leave it empty",
    ),
    Mistake(
        "A probability of sending of 0 where something was sent",
        cell("1,1,0.5", "1,1,0", SENDING),
        "logs.csv: line 3, column 'p', participant 'ann': something was sent although the probability of sending is 0; log the probability of sending anything, or leave it empty",
    ),
    Mistake(
        "Probabilities of sending as those of the action taken",
        coded("action taken"),
        "column 'p_sent': the probabilities cannot be those of the action taken: the mean weight of 'nothing' is 0.47 ± 0.05 over 12 people, where it must be 1; they look like those of sending: write columns.probability_of = \"sending\" (in Python: probability_of)",
    ),
    Mistake(
        "Probabilities of the action taken as those of sending",
        coded("sending"),
        "column 'p_taken': the probabilities cannot be those of sending: the mean weight of 'nothing' is 0.47 ± 0.05 over 12 people, where it must be 1; they look like those of the action taken: write columns.probability_of = \"action taken\" (in Python: probability_of)",
    ),
    Mistake(
        "The design's probabilities in the wrong order",
        coded("action taken", swapped=True),
        "actions.probabilities: the probabilities cannot be the design's: the mean weight of 'send' is 2.23 ± 0.07 over 12 people, where it must be 1; they look swapped: write actions.probabilities = [0.3, 0.7]",
    ),
    Mistake(
        "An outcome without a logarithm",
        cell("250", "-3"),
        "logs.csv: line 3, column 'steps', participant 'ann': -3 has no log(x + 0.5); give the outcome a plausible range (values outside count as missing), or change the transform",
    ),
    Mistake(
        "An outcome without a root",
        cell("250", "-3", STUDY.replace("log(x + 0.5)", "sqrt")),
        "logs.csv: line 3, column 'steps', participant 'ann': -3 has no sqrt; give the outcome a plausible range (values outside count as missing), or change the transform",
    ),
    Mistake(
        "Several mistakes at once",
        read(
            HEADER
            + FIRST.replace("4.5", "fine")
            + SECOND.replace("other", "moon").replace(",250", ",many")
            + THIRD.replace("bob,2020-01-01T09:00:00", "ann,2020-01-01T08:00:00")
        ),
        "logs.csv: line 2, column 'mood', participant 'ann': 'fine' is not a number; correct it or leave it empty (missing)\nlogs.csv: line 3, column 'place', participant 'ann': 'moon' was never declared; declared levels are ['other', 'home']: add it, or leave the cell empty (missing)\nlogs.csv: line 3, column 'steps', participant 'ann': 'many' is not a number; correct it or leave it empty (missing)\nlogs.csv: line 4, column 'time', participant 'ann': a second decision point at 2020-01-01T08:00:00; drop the duplicate or correct its time",
    ),
    Mistake(
        "Files of a folder with different kinds of values",
        tables(typed(), column("steps", pa.array(["12", "250", None]))),
        "logs/1.parquet: column 'steps' holds text, but numbers in logs/0.parquet; write all files with one schema",
    ),
    Mistake(
        "A file of a folder without a column",
        tables(typed(), typed().drop_columns(["mood"])),
        "logs/1.parquet: there is no column 'mood'; the table has ['participant', 'time', 'rain', 'place', 'available', 'sent', 'p', 'steps']",
    ),
    Mistake(
        "A folder of tables without rows",
        tables(typed().slice(0, 0), typed().slice(0, 0)),
        "logs: the tables have no rows; give them at least one decision point",
    ),
    Mistake(
        "Ids that are not whole numbers",
        tables(column("participant", pa.array([1.0, 1.5, 2.0]))),
        "logs/0.parquet: row 1, column 'participant': 1.5 is not a participant's id; ids are whole numbers or text",
    ),
    Mistake(
        "Ids that are yes and no",
        tables(column("participant", pa.array([True, True, False]))),
        "logs/0.parquet: column 'participant' has type bool; a participant's id is a whole number or text",
    ),
    Mistake(
        "Numbers that are dates",
        tables(column("mood", pa.array([1, 2, 3], pa.date32()))),
        "logs: column 'mood' has type date32[day] where numbers are needed; convert it",
    ),
    Mistake(
        "Levels that are times",
        tables(column("place", pa.array([1, 2, 3], pa.timestamp("us")))),
        "logs: column 'place' has type timestamp[us] where text or whole numbers are needed; convert it",
    ),
]
