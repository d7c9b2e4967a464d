"""The workflows that a worker runs, one for each declared process, by the name of the process."""

from __future__ import annotations

from domain.partner_onboarding import ONBOARDING
from workflows.partner_onboarding import PartnerOnboarding

WORKFLOWS: dict[str, type] = {ONBOARDING.name: PartnerOnboarding}
