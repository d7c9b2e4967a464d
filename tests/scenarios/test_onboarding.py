"""The main job on real parts: what is recorded in store, engine, CRM and provider."""

from world import World


def test_a_submitted_company_becomes_an_approved_reconciled_partner(shared: World) -> None:
    company = shared.seed()
    run_id = shared.submit(company.company_id)
    waiting = shared.wait_state(run_id, "awaiting_review")
    assert waiting["shown_as"] == "Waiting for approval"
    decided = shared.decide(run_id)
    assert decided.status_code == 200, decided.text
    done = shared.wait_state(run_id, "succeeded")
    assert done["reason"] == "records_agree"
    assert [o["outcome"] for o in done["operations"]] == ["accepted", "accepted"]
    shared.agrees(run_id)
