"""A private PostgreSQL cluster in a temporary folder, on a free loopback port, for as long as the tests run."""

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

from tests.service.support.guards import Guard


def binaries():
    """The folder of initdb and pg_ctl; None where PostgreSQL is not installed."""
    on_path = shutil.which("pg_ctl")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda folder: float(folder.parent.name))
    folders = ([Path(on_path).resolve().parent] if on_path else []) + debian[::-1]
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def as_server(command):
    """PostgreSQL refuses to run as root: its own user does it then."""
    return ["runuser", "-u", "postgres", "--", *command] if os.geteuid() == 0 else command


MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of the system, in which mkdtemp makes one of its own
ENOUGH_MEMORY = 2**30


def memory_folder():
    """Where files are kept in memory; None where there is no such place or too little of it, as in many containers."""
    return MEMORY if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH_MEMORY else None


@contextmanager
def cluster(folder, settings=(), parent=None):
    """The URL of a fresh cluster with these settings in a folder of `parent`, without a database name."""
    home = Path(tempfile.mkdtemp(prefix="surefoot-pg-", dir=parent))
    data, port = home / "data", free_port()
    if os.geteuid() == 0:
        server = pwd.getpwnam("postgres")
        os.chown(home, server.pw_uid, server.pw_gid)

    def run(*command):
        # Not captured: the server would keep the pipe open for as long as it lives.
        with (home.parent / f"{home.name}.log").open("ab") as log:
            subprocess.run(  # noqa: S603 - our own words
                as_server([str(part) for part in command]), check=True, stdout=log, stderr=log, cwd="/", timeout=120
            )

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c max_connections=200"
    options += "".join(f" -c {setting}" for setting in settings)
    try:
        run(folder / "initdb", "-D", data, "-U", "surefoot", "-A", "trust", "-E", "UTF8", "--no-sync")
        run(folder / "pg_ctl", "-D", data, "-o", options, "-l", home / "server.log", "-w", "start")
        guard = Guard.of_pid_file(data / "postmaster.pid")
        try:
            yield f"postgresql://surefoot@127.0.0.1:{port}"
        finally:
            guard.release()
    finally:
        if (data / "postmaster.pid").exists():
            run(folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
        shutil.rmtree(home, ignore_errors=True)
        (home.parent / f"{home.name}.log").unlink(missing_ok=True)
