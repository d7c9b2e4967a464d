"""What an event's hash covers, written out column by column, so that an audit of all events is cheap."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """A function only; older code does not call it."""
    script = Path(__file__).with_name("0007_event_text.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Nothing is lost."""
    op.execute("DROP FUNCTION event_text")
