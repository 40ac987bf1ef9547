"""Ctrl-C for programs that a test starts."""

import signal
from contextlib import contextmanager


@contextmanager
def heed_interrupts():
    """Programs that are started in the block heed Ctrl-C: the background of a shell ignores it, and so do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
