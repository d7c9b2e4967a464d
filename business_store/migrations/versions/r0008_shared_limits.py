"""Limits that all runs to one account respect, the turns they take, and credentials that are renewed by themselves."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Tables and functions only; code that knows nothing of them goes on, and respects `throttle` as before."""
    script = Path(__file__).with_name("0008_shared_limits.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Turns are lost, so runs that wait may go at once; a stored credential is lost and must be given again."""
    op.execute("DROP FUNCTION limit_release, limit_hold, limit_turn_of, limit_hit, limit_hint")
    op.execute("DROP TABLE credential, limit_turn, shared_limit")
