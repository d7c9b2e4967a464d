"""Policy versions: what a process promised when a run was taken in, immutable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from domain.canonical import canonical_bytes, sha256
from domain.errors import SameKeyOtherContent
from domain.process import Process

INSERT = text("""
    INSERT INTO policy_version (process, version, document, sha256) VALUES (:process, :version, :document, :sha256)
    ON CONFLICT DO NOTHING
""")
STORED = text("SELECT sha256 FROM policy_version WHERE process = :process AND version = :version")


def record_policies(connection: Connection, processes: Sequence[Process[Any]]) -> None:
    """Store each declared policy version once. Raises SameKeyOtherContent when a version was changed in place."""
    for process in processes:
        document = canonical_bytes(process.document())
        named = {"process": process.name, "version": process.policy}
        connection.execute(INSERT, {**named, "document": document, "sha256": sha256(document)})
        if bytes(connection.execute(STORED, named).scalar_one()) != sha256(document):
            raise SameKeyOtherContent(
                f"policy {process.policy} of {process.name} is stored with other content",
                next_actions=["declare a new policy version"],
            )
