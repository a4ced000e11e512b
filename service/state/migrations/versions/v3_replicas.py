"""State that several replicas share: positions and digests of dictionaries, documents, counters of
changes, numbers of settlements."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    op.add_column(
        "dictionaries", sa.Column("position", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column("dictionaries", sa.Column("digest", sa.Text, nullable=False, server_default=""))
    op.create_table(
        "settlements",
        sa.Column("ledger", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("written", sa.Text, nullable=False),
    )
    op.create_table(
        "revisions",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("number", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "documents",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key_digest", sa.LargeBinary, nullable=False),
        sa.Column("caller", sa.Text),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("month", sa.Text, nullable=False),
        sa.Column("filename", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False, server_default=""),
        sa.Column("characters", sa.BigInteger, nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("progress", sa.Double, nullable=False, server_default="0"),
        sa.Column("accepted", sa.Double, nullable=False),
        sa.Column("changed", sa.Double, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("linked", sa.Boolean, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("attempts", sa.Integer, nullable=False, server_default="0"),
        sa.Column("lease_until", sa.Double, nullable=False, server_default="0"),
    )
    op.create_index("documents_by_state", "documents", ["state"])
    op.create_table(
        "document_contents",
        sa.Column(
            "document",
            sa.Text,
            sa.ForeignKey("documents.id", ondelete="CASCADE"),
            primary_key=True,
        ),
        sa.Column("instructions", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        # Only files of earlier versions have rows. Their order was that of the implicit rowid.
        op.execute("UPDATE dictionaries SET position = rowid")
        rows = connection.execute(sa.text("SELECT rowid, entries FROM dictionaries")).all()
        for rowid, entries in rows:
            connection.execute(
                sa.text("UPDATE dictionaries SET digest = :digest WHERE rowid = :rowid"),
                {"digest": hashlib.sha256(entries.encode()).hexdigest(), "rowid": rowid},
            )
