"""Types of columns that are the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime, timedelta
from typing import Any

import sqlalchemy as sa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Serial = sa.BigInteger().with_variant(sa.Integer, "sqlite")
"""SQLite numbers rows by itself only where the type is INTEGER."""


def to_microseconds(moment: datetime) -> int:
    """Since 1970."""
    return (moment - EPOCH) // timedelta(microseconds=1)


class Instant(sa.TypeDecorator[datetime]):
    """A moment with a zone, kept as microseconds since 1970 in UTC: the same on every database, to the last digit."""

    impl = sa.BigInteger
    cache_ok = True

    @property
    def python_type(self) -> type[datetime]:
        return datetime

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        return None if value is None else to_microseconds(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> datetime | None:
        return None if value is None else EPOCH + timedelta(microseconds=value)
