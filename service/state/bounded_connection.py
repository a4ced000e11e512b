"""Connections to PostgreSQL that do not wait for a server for ever.

A server whose disk hangs, or that is stopped, ends no statement itself, while its host answers all
that TCP asks. Needs the extra ``fleet``.
"""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.pq import TransactionStatus

_SILENT_SECONDS = 35.0
"""Longest wait for a server, which ends statements before that."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed, by ``OperationalError``, if the server is silent for long."""

    def wait(self, *arguments: Any, **options: Any) -> Any:
        try:
            return super().wait(*arguments, **{"timeout": _SILENT_SECONDS, **options})
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status != TransactionStatus.ACTIVE:
                raise
            self.close()
            raise psycopg.OperationalError("the server does not answer") from error
