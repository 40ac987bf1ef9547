"""Mistakes at the command line."""

from pathlib import Path

from tests.mistakes.catalogue import Mistake
from tests.mistakes.given import LOGS, command


def write(name, text=""):
    return lambda: Path(name).write_text(text, encoding="utf-8")


def folder(name):
    return lambda: Path(name).mkdir()


def policies(**changes):
    def make():
        import surefoot as sf

        logs = sf.simulators.HeartSteps(participants=3).collect(sf.policies.coin(2), decision_points=30, seed=1)
        sf.method("accb", **changes).fit(logs).policies_.save(Path("policies.json"))

    return make


def fit_elsewhere():
    import surefoot as sf

    scaled = "[state.weather]\nscaling = { centre = 10.0, scale = 2.0 }"
    text = Path("study.toml").read_text(encoding="utf-8").replace("[state.weather]", scaled)
    Path("other.toml").write_text(text, encoding="utf-8")
    sf.fit_study("logs.csv", "other.toml", "fit")


def spoil_pilot(keep=lambda row: True, **changed):
    """The logs as one.csv, some rows only, with some columns the same throughout, or a function of the row's cells."""

    def make():
        header, *rows = Path("logs.csv").read_text(encoding="utf-8").splitlines()
        names, cells = header.split(","), [row.split(",") for row in rows]
        for row in cells:
            by_name = dict(zip([name.strip('"') for name in names], row, strict=True))
            by_name |= {name: value(by_name) if callable(value) else value for name, value in changed.items()}
            row[:] = by_name.values()
        lines = [header, *(",".join(row) for row in cells if keep(row))]
        Path("one.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    return make


def without_probabilities():
    study = Path("study.toml")
    study.write_text(study.read_text(encoding="utf-8").replace('probability = "probability"\n', ""), encoding="utf-8")


NUMBERED = "id,code,time,mood,sent,steps\n" + "".join(f"{row},{row % 2},{row},{row % 5},1,{row}\n" for row in range(20))


def name_availability(spoil):
    """Spoil the logs, and let the study read their availability."""

    def make():
        spoil()
        text = Path("study.toml").read_text(encoding="utf-8")
        Path("study.toml").write_text(text.replace("[columns]", '[columns]\navailable = "available"'), encoding="utf-8")

    return make


def when_free(name):
    return lambda row: row[name] if row["participant"] < "3" else ""


SIZE = ("size", "--days", "10", "--per-day", "4", "--effect", "500", "--pilot", "one.csv", "--study", "study.toml")
MISTAKES = [
    Mistake(
        "init without logs",
        command("init", "nothing.csv", "--out", "s.toml"),
        "nothing.csv: there is no such file; check the name and the folder",
    ),
    Mistake(
        "init over a study that is there",
        command("init", "logs.csv"),
        "study.toml: is already there; choose another name with --out or replace it with --force",
    ),
    Mistake(
        "init into a folder that is not there",
        command("init", "logs.csv", "--out", "studies/study.toml"),
        "studies/study.toml: there is no folder studies; make it first",
    ),
    Mistake(
        "init where no column looks like the outcome",
        command("init", "other.csv", "--out", "s.toml", before=write("other.csv", LOGS.replace("steps", "walked"))),
        "other.csv: no column looks like the outcome; say which with --outcome NAME (the table has ['participant', 'time', 'mood', 'rain', 'place', 'available', 'sent', 'p', 'walked'])",
    ),
    Mistake(
        "init with a column that is not there",
        command("init", "logs.csv", "--out", "s.toml", "--outcome", "outcme"),
        "logs.csv: there is no column 'outcme' (did you mean 'outcome'?) for outcome; the table has ['participant', 'time', 'weather', 'engagement', 'fatigue', 'available', 'action', 'probability', 'outcome']",
    ),
    Mistake(
        "init where nothing is left for the state",
        command(
            "init",
            "few.csv",
            "--out",
            "s.toml",
            before=write("few.csv", "participant,time,action,outcome\n1,1,0,2\n1,2,1,3\n"),
        ),
        "few.csv: no column is left that could be a state variable; a policy needs at least one",
    ),
    Mistake(
        "init where the id numbers the rows",
        command("init", "rows.csv", "--out", "s.toml", before=write("rows.csv", NUMBERED)),
        "rows.csv: column 'id' has another value in every row, so it seems to number the rows, not the participants; say which column names the participants with --participant NAME",
    ),
    Mistake(
        "init where only one action was taken",
        command("init", "rows.csv", "--out", "s.toml", "--participant", "code", before=write("rows.csv", NUMBERED)),
        "rows.csv: column 'sent' holds 1 only, so no two actions can be compared; say with --action NAME which column holds the actions",
    ),
    Mistake(
        "size with an effect in standard deviations where it is in steps",
        command("size", "--days", "20", "--per-day", "2", "--effect", "0.1", "--sd", "150"),
        "an effect of 0.1 is 0.00067 standard deviations of the outcome (sd 150), too small for any trial; give it in the outcome's units, in which 0.1 standard deviations are 15",
    ),
    Mistake(
        "fit without a study",
        command("fit", "logs.csv", "--study", "other.toml"),
        "other.toml: there is no such file; surefoot init LOGS --out other.toml writes a first one",
    ),
    Mistake(
        "fit with logs and study exchanged",
        command("fit", "study.toml", "--study", "logs.csv"),
        "logs.csv: holds logs, not a study; write surefoot fit logs.csv --study study.toml",
    ),
    Mistake(
        "fit with the study as logs",
        command("fit", "study.toml"),
        "study.toml: is a study, not logs; write surefoot fit LOGS --study study.toml",
    ),
    Mistake(
        "fit into a folder that is there",
        command("fit", "logs.csv", before=folder("fitted")),
        "fitted: is already there; choose another folder or replace it with --force",
    ),
    Mistake(
        "fit --force over something else",
        command("fit", "logs.csv", "--force", before=lambda: (folder("fitted")(), write("fitted/letter.txt")())),
        "fitted: is already there and is not a fit (no manifest of one), so --force leaves it alone",
    ),
    Mistake(
        "fit into a folder of a folder that is not there",
        command("fit", "logs.csv", "--out", "results/fitted"),
        "results/fitted: there is no folder results; make it first",
    ),
    Mistake(
        "fit --engine cuda",
        command("fit", "logs.csv", "--engine", "cuda"),
        "there is no engine 'cuda' (did you mean 'gpu'?); choose from ['auto', 'numpy', 'torch', 'gpu', 'dask']",
    ),
    Mistake(
        "fit --engine cpu",
        command("fit", "logs.csv", "--engine", "cpu"),
        "there is no engine 'cpu' (did you mean 'numpy'?); choose from ['auto', 'numpy', 'torch', 'gpu', 'dask']",
    ),
    Mistake(
        "fit --engine with a typing mistake",
        command("fit", "logs.csv", "--engine", "trch"),
        "there is no engine 'trch' (did you mean 'torch'?); choose from ['auto', 'numpy', 'torch', 'gpu', 'dask']",
    ),
    Mistake(
        "fit --scheduler without Dask",
        command("fit", "logs.csv", "--scheduler", "tcp://127.0.0.1:8786"),
        "scheduler is for engine 'dask'; choose that engine or leave the scheduler out",
    ),
    Mistake(
        "audit into a folder that is not there",
        command("audit", "logs.csv", "--html", "pages/audit.html"),
        "pages/audit.html: there is no folder pages; make it first",
    ),
    Mistake(
        "audit into a folder",
        command("audit", "logs.csv", "--html", "pages", before=folder("pages")),
        "pages: is a folder; name a file",
    ),
    Mistake(
        "evaluate without probabilities",
        command(
            "evaluate",
            "logs.csv",
            before=write("study.toml", '[columns]\nparticipant = "participant"\ntime = "time"\n[state.weather]\n'),
        ),
        "row 0, column 'probability', participant 0: the probability of the action taken is missing (240 of 240 usable decision points); log it, or state the design's with actions.probabilities in study.toml",
    ),
    Mistake(
        "evaluate with policies that are not there",
        command("evaluate", "logs.csv", "--policies", "policies.json"),
        "policies.json: there is no such file; check the name and the folder",
    ),
    Mistake(
        "evaluate with policies in another format",
        command("evaluate", "logs.csv", "--policies", "policies.txt", before=write("policies.txt")),
        "policies.txt: policies are saved as .json or .parquet",
    ),
    Mistake(
        "evaluate with a folder that is not a fit",
        command("evaluate", "logs.csv", "--policies", "fitted", before=folder("fitted")),
        "fitted: not a folder of a fit (its manifest.json cannot be read); make one with fit",
    ),
    Mistake(
        "evaluate with policies over other states",
        command("evaluate", "logs.csv", "--policies", "policies.json", before=policies()),
        "policies.json: its variables are ['weather', 'engagement', 'fatigue'], the study's ['weather', 'engagement']",
    ),
    Mistake(
        "evaluate with policies of another study, in which the same name means something else",
        command("evaluate", "logs.csv", "--policies", "fit", before=fit_elsewhere),
        "fit: state variable 'weather' has scaling [10.0, 2.0] in the policies, None in the study; use the study that the policies were fitted with",
    ),
    Mistake(
        "evaluate with a critic that does not exist",
        command("evaluate", "logs.csv", "--critic", "huber"),
        "there is no critic 'huber'; choose from ['ridge', 'capped', 'high-breakdown', 'random-forest', 'gradient-boosting', 'capped-random-forest', 'capped-gradient-boosting']",
    ),
    Mistake(
        "evaluate with a cross-fitting that does not exist",
        command("evaluate", "logs.csv", "--cross-fit", "people"),
        "there is no cross-fitting 'people' (did you mean 'person'?); choose from ['person', 'time']",
    ),
    Mistake(
        "import of another file",
        command("import", "heartsteps-v1", "logs.csv"),
        "logs.csv: there is no column 'user.index'; the table has ['participant', 'time', 'weather', 'engagement', 'fatigue', 'available', 'action', 'probability', 'outcome']",
    ),
    Mistake(
        "import into a folder that is there",
        command("import", "heartsteps-v1", "logs.csv", before=folder("heartsteps-v1")),
        "heartsteps-v1: is already there; choose another folder or remove it",
    ),
    Mistake(
        "reproduce with an experiment that does not exist",
        command("reproduce", "s9"),
        "there is no experiment 's9' (did you mean 's7'?); choose from ['s1', 's2', 's3', 's4', 's5', 's6', 's7']",
    ),
    Mistake(
        "reproduce with fewer than no processes",
        command("reproduce", "s1", "--jobs", "-1"),
        "jobs is -1; give a number of processes, or 0 for one per core",
    ),
    Mistake(
        "rehearse with a pilot of one participant",
        command("rehearse", "one.csv", before=spoil_pilot(lambda row: row[0] == "0")),
        "a pilot with one participant does not say how people differ; give at least two, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "rehearse with a pilot without probabilities",
        command("rehearse", "logs.csv", before=without_probabilities),
        "the pilot's randomisation probabilities are missing; log them (columns.probability), or write what the design was: [actions] probabilities = [0.4, 0.6] with your numbers",
    ),
    Mistake(
        "rehearse with a pilot whose outcome never varies",
        command("rehearse", "one.csv", before=spoil_pilot(lambda row: True, outcome="7")),
        "the pilot's outcome is always 7, so its spread cannot be learned; name the column that varies as [outcome] column, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "rehearse with a pilot in which nobody is available",
        command("rehearse", "one.csv", before=name_availability(spoil_pilot(available="false", action="", probability=""))),
        "no decision point of the pilot is available, so the effect of sending cannot be learned; check columns.available, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "rehearse with a pilot in which a state variable is always missing",
        command("rehearse", "one.csv", before=spoil_pilot(weather="")),
        "the pilot's 'weather' is not known at any decision point, so its changes over time cannot be learned; leave it out of [state], give a longer pilot, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "rehearse with a pilot whose outcome is coded 1 and 2",
        command("rehearse", "one.csv", before=spoil_pilot(outcome=lambda row: "2" if row["weather"] > "0" else "1")),
        "the pilot's outcome has only the values 1 and 2, and no family suits it; code it as 0 and 1",
    ),
    Mistake(
        "rehearse with a pilot in which nothing was sent",
        command("rehearse", "one.csv", before=spoil_pilot(action="0", probability="0.4")),
        "the pilot sent something at no available decision point, so it does not show the effect of sending; include decision points of both kinds, or rehearse without a pilot: leave the file out, in Python sf.rehearsal.from_study(study, …)",
    ),
    Mistake(
        "size with a pilot of two participants",
        command(*SIZE, before=spoil_pilot(lambda row: row[0] in "01")),
        "a pilot needs at least three participants with an outcome; this one has 2",
    ),
    Mistake(
        "size with a pilot whose outcome never varies",
        command(*SIZE, before=spoil_pilot(outcome="7")),
        "the pilot's outcome is always 7, so its spread cannot be learned; name the column that varies as [outcome] column, or give the numbers yourself and leave --pilot out",
    ),
    Mistake(
        "size with a pilot in which nothing was sent",
        command(*SIZE, before=spoil_pilot(action="0", probability="0.4")),
        "the pilot sent something at no decision point that counts, so nothing about the effect's spread can be learned; include decision points of both kinds",
    ),
    Mistake(
        "size with a pilot whose outcome follows from the action",
        command(*SIZE, before=spoil_pilot(outcome=lambda row: row["action"])),
        "controls and treatment explain the pilot's outcome exactly, so it says nothing about the spread; give a longer pilot, or name fewer controls in [effects]",
    ),
    Mistake(
        "size with a pilot whose availability could be zero",
        command(
            *SIZE,
            before=name_availability(
                spoil_pilot(
                    available=lambda row: str(row["participant"] < "3").lower(),
                    action=when_free("action"),
                    probability=when_free("probability"),
                )
            ),
        ),
        "the pilot's availability is 0.5 (95 % interval −0.1 to 1.1): at its lower end no number of people is enough; give the availability yourself, or a longer pilot",
    ),
    Mistake(
        "effects of an outcome that follows from the action",
        command("effects", "one.csv", before=spoil_pilot(outcome=lambda row: row["action"])),
        "the 6 participants that count show exactly the same effect, so its uncertainty cannot be estimated; check the column 'outcome', or wait for more decision points",
    ),
    Mistake(
        "rehearse without a pilot and without a range of the outcome",
        command("rehearse"),
        "the study does not say how the outcome varies; write [outcome] range = [0, 100], or give mean, sd",
    ),
    Mistake(
        "rehearse with a plan that is not there",
        command("rehearse", "logs.csv", "--plan", "plan.toml"),
        "plan.toml: there is no such file; leave --plan out to rehearse with the defaults",
    ),
    Mistake(
        "rehearse with an unknown key in the plan",
        command("rehearse", "logs.csv", "--plan", "plan.toml", before=write("plan.toml", "[design]\nparticipant = 5\n")),
        "plan.toml: line 2, key 'design.participant': unknown key (did you mean 'participants'?); valid here are participants, days, per_day, entry_days, cohort, update_every, outcome_delay, drop_out, drop_out_burden, screen",
    ),
    Mistake(
        "rehearse with one trial",
        command("rehearse", "logs.csv", "--trials", "1"),
        "trials is 1; at least 2 say how much trials differ",
    ),
    Mistake(
        "rehearse into a folder that holds something else",
        command("rehearse", "logs.csv", "--out", "pages", before=lambda: (folder("pages")(), write("pages/letter.txt")())),
        "pages: exists, but is not a rehearsal; choose another folder with --out",
    ),
    Mistake(
        "rehearse --score with a folder that holds no rehearsal",
        command("rehearse", "--score", "pages", "logs.csv", before=folder("pages")),
        "pages/answers.json: is no result of a rehearsal; rehearse with --out pages first",
    ),
    Mistake(
        "rehearse --score without the trial",
        command("rehearse", "--score", "pages"),
        "--score pages needs the trial's decisions; write surefoot rehearse --score pages decisions.csv",
    ),
    Mistake(
        "rehearse --engine gpu",
        command("rehearse", "logs.csv", "--engine", "gpu"),
        "there is no engine 'gpu'; choose from ['processes', 'dask']",
    ),
]
