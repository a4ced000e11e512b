"""API keys, usage, glossaries and suggestions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "1"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("digest", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("requests_per_minute", sa.BigInteger),
        sa.Column("characters_per_month", sa.BigInteger),
        sa.Column("created", sa.Text, nullable=False),
    )
    op.create_table(
        "usage",
        sa.Column("caller", sa.Text, primary_key=True),
        sa.Column("month", sa.Text, primary_key=True),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("documents", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "glossaries",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("owner", sa.Text),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
    )
    op.create_index("glossaries_by_owner", "glossaries", ["owner", "created"])
    op.create_table(
        "dictionaries",
        sa.Column(
            "glossary",
            sa.Text,
            sa.ForeignKey("glossaries.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("source", sa.Text, primary_key=True),
        sa.Column("target", sa.Text, primary_key=True),
        sa.Column("entry_count", sa.Integer, nullable=False),
        sa.Column("entries", sa.Text, nullable=False),
    )
    op.create_table(
        "suggestions",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("received", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("suggestion", sa.Text, nullable=False),
    )
