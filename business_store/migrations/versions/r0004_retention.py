"""Contents of what was over long ago may be erased, by a role of its own and as recorded beforehand."""

from __future__ import annotations

from pathlib import Path

from alembic import op
from sqlalchemy import text

from domain.errors import CounterfoilError

revision = "0004"
down_revision = "0003"

KNOWN = text("SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterfoil_retention')")


class RoleMissing(CounterfoilError):
    """Roles are made by whoever runs the database: the owner of the schema cannot."""

    code = "role_missing"


def upgrade() -> None:
    """Constraints are loosened, nothing is rewritten; older code does not notice. Raises RoleMissing."""
    connection = op.get_bind().execution_options(no_parameters=True)
    if not connection.execute(KNOWN).scalar_one():
        raise RoleMissing(
            "the database has no role counterfoil_retention", next_actions=["run deploy/roles.sql as superuser"]
        )
    connection.exec_driver_sql(Path(__file__).with_name("0004_retention.sql").read_text())


def downgrade() -> None:
    """What was erased does not come back, so neither does the rule that nothing is missing."""
    raise RuntimeError("recorded erasure cannot be undone: restore a backup instead")
