"""Outputs go where they are told to: through links, into pipes and devices, or not at all."""

import os
import threading

import pytest
from typer.testing import CliRunner

from surefoot import InputError
from surefoot.atomic_files import atomic_write, new_folder, write_texts
from surefoot.cli import app
from surefoot.service.database import databases


def test_a_link_stays_a_link_and_what_it_points_to_is_replaced(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "page.html", tmp_path / "page.html"
    link.symlink_to(target)
    for text in ("made", "replaced"):
        write_texts({link: text})
        assert link.is_symlink()
        assert target.read_text() == text
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["page.html"]


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    with atomic_write(pipe) as temporary:
        temporary.write_bytes(b"through the pipe")
    reader.join(60)
    assert got == [b"through the pipe"]
    assert pipe.is_fifo()


def test_a_device_is_written_into_and_stays_a_device(tmp_path):
    ours, theirs = os.openpty()
    device = tmp_path / "device"
    device.symlink_to(os.ttyname(theirs))
    try:
        write_texts({device: "shown"})
        assert os.read(ours, 100) == b"shown"
        assert device.resolve().is_char_device()
    finally:
        os.close(ours)
        os.close(theirs)


def test_an_error_in_the_block_leaves_what_was_there(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("before")
    with pytest.raises(ZeroDivisionError), atomic_write(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError
    assert path.read_text() == "before"
    assert [file.name for file in tmp_path.iterdir()] == ["page.html"]


def test_what_cannot_be_written_is_one_line(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path, words in (
        (tmp_path / "missing" / "x", "there is no folder"),
        (tmp_path / "folder", "is a folder; name a file"),
        (tmp_path / "circle", "cannot be written"),
        (tmp_path / ("x" * 300), "cannot be written"),
    ):
        with pytest.raises(InputError, match=words) as refused:
            write_texts({tmp_path / "fine": "", path: ""})
        assert str(refused.value).startswith(f"{path}: ")
        assert not (tmp_path / "fine").exists()
        with pytest.raises(InputError), new_folder(path):
            pass


def test_a_full_disk_is_one_line(tmp_path):
    with pytest.raises(InputError, match=r"x: cannot be written \(No space left on device\)"), atomic_write(tmp_path / "x"):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


LOGS = "participant,time,mood,action,outcome\n" + "".join(f"1,{t},{t * 7 % 5},{t * t % 5 % 2},{t % 3}\n" for t in range(30))


@pytest.mark.parametrize(
    "arguments",
    [
        ("init", "logs.csv", "--out", "missing/study.toml"),
        ("init", "logs.csv", "--out", "folder", "--force"),
        ("fit", "logs.csv", "--out", "missing/fitted"),
        ("audit", "logs.csv", "--html", "missing/audit.html"),
        ("audit", "logs.csv", "--html", "folder"),
        ("explain", "logs.csv", "--markdown", "missing/card.md"),
        ("evaluate", "logs.csv", "--html", "missing/page.html"),
        ("export", "missing/decisions.csv", "--database", "sqlite:///trial.db"),
        ("backup", "missing/backup.zip", "--database", "sqlite:///trial.db"),
        ("keys", "create", "--role", "app", "--database", "sqlite:///missing/trial.db"),
    ],
    ids=" ".join,
)
def test_no_command_ends_in_a_traceback_because_of_its_output(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "logs.csv").write_text(LOGS)
    (tmp_path / "study.toml").write_text(
        '[columns]\nparticipant = "participant"\ntime = "time"\navailable = "available"\nprobability = "probability"\n'
        "[state.mood]\n[probability_limits]\nminimum = 0.1\nmaximum = 0.9\n[trial]\n"
        if arguments[0] in ("export", "backup", "keys")
        else '[columns]\nparticipant = "participant"\ntime = "time"\n[state.mood]\n[actions]\nprobabilities = [0.5, 0.5]\n'
    )
    if "sqlite:///trial.db" in arguments:
        databases.prepare(databases.connect("sqlite:///trial.db"))
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, InputError), result.output
    assert "\n" not in str(result.exception)
    assert "folder" in str(result.exception)
