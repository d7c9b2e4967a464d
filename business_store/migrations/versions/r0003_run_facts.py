"""Reading a run, and taking its lock, in one call each: round trips are what a transaction costs."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Functions only; older code does not call them."""
    script = Path(__file__).with_name("0003_run_facts.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Nothing is lost."""
    op.execute("DROP FUNCTION run_facts_locked; DROP FUNCTION run_facts")
