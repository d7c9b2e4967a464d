"""The pace after a limit grows again with every turn that meets no limit."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """A column with a default and a function of the same signature: code of before goes on."""
    script = Path(__file__).with_name("0011_closer_turns.sql").read_text()
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(script)


def downgrade() -> None:
    """The former function, which knows nothing of the column."""
    former = Path(__file__).with_name("0008_shared_limits.sql").read_text()
    begin, end = former.index("CREATE FUNCTION limit_turn_of"), former.index("-- All runs wait until somebody mends")
    replaced = former[begin:end].replace("CREATE FUNCTION", "CREATE OR REPLACE FUNCTION")
    op.get_bind().execution_options(no_parameters=True).exec_driver_sql(replaced)
    op.execute("ALTER TABLE shared_limit DROP COLUMN least_gap")
