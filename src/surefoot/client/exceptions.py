"""What can go wrong between an app server and the service.

What is wrong before anything is sent (a time without a zone, a value that is not a number) is a `surefoot.InputError`.
"""


class ClientError(Exception):
    """Anything that went wrong between this client and the service."""


class NetworkError(ClientError):
    """No answer came. The request may have been recorded: the same call again is safe, and gets the same answer."""


class UnexpectedAnswerError(ClientError):
    """The answer is not one of Surefoot's: another server, a proxy or a captive portal gave it."""


class ApiError(ClientError):
    """The service refused.

    Attributes
    ----------
    status : int
        Of HTTP.
    code : str
        For programs: `decided_otherwise`, `out_of_order`, `unknown_participant`, …
    message : str
        For people.
    field : str or None
        The field of the request that it is about.
    request_id : str or None
        The name of this request in the service's log.
    """

    def __init__(
        self, status: int, code: str, message: str, field: str | None = None, request_id: str | None = None
    ) -> None:
        suffix = "" if field is None else f" [{field}]"
        super().__init__(f"{status} {code}: {message}{suffix}")
        self.status = status
        self.code = code
        self.message = message
        self.field = field
        self.request_id = request_id


class AccessError(ApiError):
    """401, 403: the key is not valid, was revoked, or has a role that may not do this."""


class NotFoundError(ApiError):
    """404: there is no such participant, decision or route."""


class ConflictError(ApiError):
    """409: decided otherwise before, out of order or too soon. Sending it again does not help."""


class InvalidRequestError(ApiError):
    """400, 413, 415, 422: the request is wrong in form; `field` says where."""


class UnavailableError(ApiError):
    """408, 429, 502, 503, 504: the service cannot answer now, and was asked as often as `Retries` allows."""

    retry_after: float | None = None
    """After how many seconds to try again, if the service said so."""


class QueueError(ClientError):
    """The queue on disk cannot be used."""


class QueueFullError(QueueError):
    """The queue holds as many outcomes as it may; nothing of this call was added."""


class QueueInUseError(QueueError):
    """Another process, or another client, has this queue open."""


class QueueWarning(UserWarning):
    """Something in the queue on disk could not be read, or was refused; it was set aside and nothing else was lost."""
