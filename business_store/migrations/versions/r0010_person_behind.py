"""Nobody stands behind more than one other: what finds the person behind an actor takes two steps."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """A trigger on a small table. Rows from before stay; the audit finds those that it would refuse."""
    script = Path(__file__).with_name("0010_person_behind.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """Nothing is lost but the guard."""
    op.execute("DROP TRIGGER actor_guard ON actor; DROP FUNCTION guard_actor")
