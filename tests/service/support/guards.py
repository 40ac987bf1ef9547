"""Whatever a test starts ends with it, also when the test is killed: a shell waits for this process to close a pipe."""

import shlex
import subprocess


class Guard:
    """Runs a shell script when this process is gone, unless it is released before."""

    def __init__(self, script):
        self._shell = subprocess.Popen(  # noqa: S603 - our own words
            ["/bin/sh", "-c", f"read _; {script}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @classmethod
    def of_group(cls, leader):
        """Kills a process group."""
        return cls(f"kill -9 -{leader}")

    @classmethod
    def of_pid_file(cls, path):
        """Kills the process whose number is the first line of a file."""
        return cls(f'kill -9 "$(head -n 1 {shlex.quote(str(path))})"')

    def release(self):
        self._shell.kill()
        self._shell.wait()
        self._shell.stdin.close()
