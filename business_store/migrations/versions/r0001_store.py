"""The store as it first stood."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None

ROLE = """
DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterfoil_app') THEN
        CREATE ROLE counterfoil_app LOGIN;
    END IF;
END $$
"""


def _script(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def upgrade() -> None:
    """Create everything; the application role may exist already, roles are shared by a whole cluster."""
    connection = op.get_bind().execution_options(no_parameters=True)
    for script in (ROLE, _script("0001_store.sql"), _script("0001_moves.sql")):
        connection.exec_driver_sql(script)


def downgrade() -> None:
    """There is no way back from the first version."""
    raise RuntimeError("the first migration cannot be undone: restore a backup instead")
