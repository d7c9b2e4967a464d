"""What a run costs the store: the document that its decisions rest on, without what nobody reads in it."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """The functions under the same names with the same fields, so that older code goes on; one view, for one rule."""
    script = Path(__file__).with_name("0006_cheaper_runs.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Nothing would be lost, but the step before has no way back either."""
    raise RuntimeError("rows of record cannot be taken away: restore a backup instead")
