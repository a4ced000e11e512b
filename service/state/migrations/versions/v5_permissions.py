"""Models and languages of keys."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    op.add_column("api_keys", sa.Column("models", sa.Text))
    op.add_column("api_keys", sa.Column("languages", sa.Text))
