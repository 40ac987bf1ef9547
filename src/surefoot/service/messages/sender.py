"""The sender: a thread of every worker that hands messages over; the database decides which worker sends which."""

from __future__ import annotations

import logging
import threading

from surefoot.service.database.clock import now
from surefoot.service.messages.channels import make_channels
from surefoot.service.messages.outbox import collect_messages, deliver_messages
from surefoot.service.trial.trial import Trial

TICK_SECONDS = 5.0
log = logging.getLogger("surefoot.service")


class MessageSender:
    """Runs for as long as the application; without channels there is nothing to run."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._stop = threading.Event()
        self._channels = make_channels(trial.settings.alerts)
        self._thread = threading.Thread(target=self._run, daemon=True, name="messages")

    def start(self) -> None:
        if self._channels:
            self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._channels:
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while not self._stop.wait(TICK_SECONDS):
            try:
                collect_messages(self._trial, self._channels, now())
                for channel in self._channels:
                    deliver_messages(self._trial, channel, now())
            except Exception as error:
                # The next tick tries again; only the kind is logged, the message may hold data.
                log.error("messages failed with %s", type(error).__name__)
