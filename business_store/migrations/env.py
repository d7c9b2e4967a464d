"""Run migrations on the connection that business_store.schema hands over."""

from __future__ import annotations

from alembic import context


def run() -> None:
    """One transaction for the whole upgrade."""
    context.configure(connection=context.config.attributes["connection"], transaction_per_migration=True)
    with context.begin_transaction():
        context.run_migrations()


run()
