"""Usage by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    op.create_table(
        "usage_by_day",
        sa.Column("caller", sa.Text, primary_key=True),
        sa.Column("day", sa.Text, primary_key=True),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("documents", sa.BigInteger, nullable=False),
    )
