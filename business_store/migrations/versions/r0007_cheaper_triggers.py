"""What an event's hash covers, written out, for a cheap audit; and an index for the slow check of executions."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Older code neither calls the function nor misses the index."""
    script = Path(__file__).with_name("0007_cheaper_triggers.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Nothing is lost."""
    op.execute("DROP INDEX run_unchecked; DROP FUNCTION event_text")
