"""A client of the decision service, for the server of an app (`pip install 'surefoot[client]'`).

`Client` works with threads, `AsyncClient` with asyncio. Both repeat a request byte for byte until there is an answer, so
that there is one draw for each decision point whatever the network does, and keep outcomes on disk while there is none.
"""

from surefoot.client.clients import AsyncClient, Client
from surefoot.client.exchange import (
    AccessError,
    ApiError,
    ClientError,
    ConflictError,
    Decision,
    InvalidRequestError,
    NetworkError,
    NextDecision,
    NotFoundError,
    Outcome,
    Participant,
    Pause,
    QueueError,
    QueueFullError,
    QueueInUseError,
    QueueWarning,
    Receipt,
    Retries,
    UnavailableError,
    UnexpectedAnswerError,
    Withdrawal,
)
from surefoot.client.outcome_queue import OutcomeQueue

__all__ = [
    "AccessError",
    "ApiError",
    "AsyncClient",
    "Client",
    "ClientError",
    "ConflictError",
    "Decision",
    "InvalidRequestError",
    "NetworkError",
    "NextDecision",
    "NotFoundError",
    "Outcome",
    "OutcomeQueue",
    "Participant",
    "Pause",
    "QueueError",
    "QueueFullError",
    "QueueInUseError",
    "QueueWarning",
    "Receipt",
    "Retries",
    "UnavailableError",
    "UnexpectedAnswerError",
    "Withdrawal",
]
