"""What the reason codes of events and runs mean, in a sentence, where a person has to understand them at a glance."""

from __future__ import annotations

MEANING: dict[str, str] = {
    # ways of waiting and ending
    "review_opened": "this version needs a decision",
    "inputs_incomplete": "required inputs are missing or wrong",
    "changes_requested": "a reviewer asked for changes",
    "provider_outcome_unknown": "a request was sent and no usable answer came back",
    "records_agree": "every mandatory record agrees with the approved version",
    "rejected": "a reviewer rejected it",
    "review_expired": "nobody decided before the deadline",
    "amendment_not_made": "the record was not amended before the deadline",
    # the outcome of a send is in doubt
    "contracts_exhausted": "the answer was lost, and everything that may be tried without a person has been tried",
    "no_recovery": "the answer was lost, and the provider offers no way to find out",
    "lookups_failing": "the answer was lost, and every look-up fails",
    "window_closed": "nothing was executed, and the provider's key may not be used any more",
    "sends_exhausted": "nothing was executed in as many sends as are allowed",
    "content_mismatch": "the provider knows our key with other content",
    "several_records": "more than one record answers to our key",
    "foreign_record": "a record under our key does not hold our content",
    "contradicting_answers": "definite answers contradict each other",
    "contradicting_evidence": "an effect was seen that had been ruled out",
    "record_without_reference": "the effect exists, and nothing says under which id",
    "never_sent": "an operation without a send was to be settled",
    "former_generation_exists": "an earlier generation of this operation may exist",
    "review_expired_in_doubt": "the time for a decision ran out while a send is in doubt",
    "amendment_not_made_in_doubt": "the time for an amendment ran out while a send is in doubt",
    "rejected_in_doubt": "a reviewer rejected it while a send is in doubt",
    # the other side said no, or nothing
    "provider_rejected": "the provider refused the content; nothing was made",
    "provider_unreachable": "no send came through; nothing was made",
    "read_failed": "a record outside could not be read",
    "throttled": "the other side asked for a pause",
    "credential_refused": "the other side refuses our credential; every run to it waits until it is renewed",
    "not_sent": "a send was provably not executed",
    "subject_gone": "the CRM record is gone",
    "subjects_merged": "two CRM records with open runs were merged",
    "records_disagree": "a record outside differs from the approved version",
    # ours
    "execution_lost": "the engine's execution was ended from outside; counterfoil resume starts it again",
    "own_defect": "a step failed by a defect of ours",
    "inputs_erased": "the inputs of an earlier run were erased after their time, and nobody sent new ones",
    "no_version": "a send was asked for before any input version existed",
}


def meaning(reason: str) -> str | None:
    """The sentence of this code, or None where the code says it all."""
    return MEANING.get(reason)
