"""State that several replicas share: positions and digests of dictionaries, documents, counters of
changes, numbers of settlements; several secrets of one key."""

from __future__ import annotations

import hashlib

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    _separate_secrets()
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


def _separate_secrets() -> None:
    op.create_table(
        "key_holders",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("requests_per_minute", sa.BigInteger),
        sa.Column("characters_per_month", sa.BigInteger),
        sa.Column("bulk", sa.Boolean, nullable=False),
        sa.Column("created", sa.Text, nullable=False),
    )
    limits = "name, requests_per_minute, characters_per_month"
    op.execute(f"INSERT INTO key_holders SELECT {limits}, false, created FROM api_keys")
    op.rename_table("api_keys", "keys_with_digests")
    op.rename_table("key_holders", "api_keys")
    op.create_table(
        "key_secrets",
        sa.Column("digest", sa.LargeBinary, primary_key=True),
        sa.Column(
            "name",
            sa.Text,
            sa.ForeignKey("api_keys.name", ondelete="CASCADE"),
            nullable=False,
        ),
        sa.Column("created", sa.Text, nullable=False),
        sa.Column("expires", sa.Text),
    )
    op.execute("INSERT INTO key_secrets SELECT digest, name, created, NULL FROM keys_with_digests")
    op.drop_table("keys_with_digests")
