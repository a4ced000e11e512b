"""State that several replicas share: positions and digests of dictionaries, counters of changes,
numbers of settlements."""

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
