"""Translation memories, and the jobs that import and export them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    op.create_table(
        "memories",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("targets", sa.Text, nullable=False),
        sa.Column("unit_count", sa.Integer, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
    )
    op.create_index("memories_by_owner", "memories", ["owner", "created"])
    op.create_table(
        "memory_parts",
        sa.Column(
            "memory",
            sa.Text,
            sa.ForeignKey("memories.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("units", sa.Text, nullable=False),
    )
    op.create_table(
        "memory_jobs",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text),
        sa.Column("operation", sa.Text, nullable=False),
        sa.Column("secret", sa.Text, nullable=False, unique=True),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("file_bytes", sa.BigInteger, nullable=False),
        sa.Column("memory", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("skipped", sa.Integer, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
    )
