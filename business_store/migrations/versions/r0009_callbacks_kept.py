"""Erasing knows of callbacks: their bodies, and what they say against an outcome."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Functions, an index and grants; an erasure under way goes on by the stricter rule."""
    script = Path(__file__).with_name("0009_callbacks_kept.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """The looser rule would erase what is kept: there is no way back."""
    raise RuntimeError("erasing would forget callbacks again: restore a backup instead")
