"""A pool of connections that stays closed."""

import sqlalchemy as sa
from sqlalchemy.pool import ConnectionPoolEntry


class ClosingPool(sa.QueuePool):
    """Closes a connection that a thread brings back after the pool was closed; SQLAlchemy would leave it open for ever."""

    _is_closed = False

    def dispose(self) -> None:
        """Close all connections; those in use when they come back."""
        self._is_closed = True
        super().dispose()

    def _do_return_conn(self, record: ConnectionPoolEntry) -> None:
        super()._do_return_conn(record)
        if self._is_closed:
            super().dispose()
