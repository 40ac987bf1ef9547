"""Servers that start in a moment: a process with everything imported forks workers on one socket whenever it is told to.

Run as a module; each line on standard input names a port, a number of workers and their environment, and starts a server,
whose process group is printed.
"""

import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress


def listen(port):
    """The port becomes free a moment after the last server was killed."""
    for _ in range(500):
        try:
            return socket.create_server(("127.0.0.1", port), backlog=200)
        except OSError:
            time.sleep(0.01)
    raise SystemExit("the port stays taken")


def main():
    import uvicorn
    import uvicorn.lifespan.on
    import uvicorn.loops.auto
    import uvicorn.protocols.http.auto

    from surefoot.service.app import from_environment

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    leaders = []
    for line in sys.stdin:
        port, workers, environment = json.loads(line)
        os.environ.update(environment)
        # Here, for everything that it imports the first time.
        from_environment().state.trial.close()
        leader = os.fork()
        if leader == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            listening = listen(port)
            for _ in range(workers - 1):
                if os.fork() == 0:
                    break
            settings = uvicorn.Config(from_environment, factory=True, log_level="warning")
            uvicorn.Server(settings).run(sockets=[listening])
            os._exit(0)
        leaders.append(leader)
        print(leader, flush=True)
    # Nobody is there any more to kill them.
    for leader in leaders:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)


if __name__ == "__main__":
    main()
