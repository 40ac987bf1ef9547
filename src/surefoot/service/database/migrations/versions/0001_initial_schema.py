"""Initial schema.

A new database gets the tables of `schema.py` (see `env.py`); a migration changes a database that has earlier ones.
"""

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Nothing comes before."""
