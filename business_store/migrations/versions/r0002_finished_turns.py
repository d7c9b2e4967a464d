"""When a loop last finished a turn: the sweep's lag is read from here, not guessed from its lease."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """An added column without a default rewrites nothing; older code does not see it."""
    op.execute("ALTER TABLE lease ADD COLUMN finished_at timestamptz")


def downgrade() -> None:
    """Nothing but the measured lag is lost."""
    op.execute("ALTER TABLE lease DROP COLUMN finished_at")
