"""A hold is of the credential that was refused: another one lifts it by itself."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    """Columns with defaults and functions beside the former ones: code that knows nothing of them goes on."""
    script = Path(__file__).with_name("0012_marked_holds.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Marks are lost: what is held waits for a person's word."""
    op.execute("DROP FUNCTION limit_lift, limit_hold_mark")
    op.execute("ALTER TABLE credential DROP COLUMN former_seeds")
    op.execute("ALTER TABLE shared_limit DROP COLUMN refused")
