"""What goes out together, and what providers tell by themselves: dispatches and callbacks."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"

GUARD = """
CREATE TRIGGER insert_only BEFORE UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON {table} TO counterfoil_app;
"""
INSERT_ONLY = ("dispatch", "callback")


def upgrade() -> None:
    """Tables and one column more; code that knows nothing of them goes on."""
    connection = op.get_bind().execution_options(no_parameters=True)
    for name in ("0005_dispatch.sql", "0005_callbacks.sql"):
        connection.exec_driver_sql(Path(__file__).with_name(name).read_text())
    for table in INSERT_ONLY:
        connection.exec_driver_sql(GUARD.format(table=table))


def downgrade() -> None:
    """There is no way back from rows of record."""
    raise RuntimeError("rows of record cannot be taken away: restore a backup instead")
