"""Outgoing webhooks: what is sent, how it is signed, and that it is sent until somebody accepts it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from eventually import eventually
from hubspot.utils.signature import Signature
from sandboxes import sandbox_process
from webhook_receiver import Receiver, receiving

from sandbox.control import SandboxControl
from sandbox.hubspot_signature import signature_v3

SECRET = "test-client-secret-0001"
VECTORS = Path(__file__).parents[1] / "fixtures" / "inbound" / "signature_vectors.json"
EXAMPLE = Path(__file__).parents[1] / "fixtures" / "inbound" / "hubspot_batch.json"
COMPANIES = "/crm/v3/objects/companies"


@pytest.fixture
def receiver(sandbox: SandboxControl) -> Iterator[Receiver]:
    """Set as the sandbox's only target."""
    with receiving("/triggers/hubspot?source=a%20b") as receiver:
        sandbox.settings(webhook_urls=[receiver.url], webhook_secret=SECRET, webhook_retry_first=0.02)
        yield receiver
        sandbox.settings(webhook_urls=[])


def test_signature_vector() -> None:
    vector = json.loads(VECTORS.read_text())["hubspot_v3"]
    signed = signature_v3(vector["secret"], vector["uri"], vector["body"].encode(), vector["timestamp_ms"])
    assert signed == vector["header X-HubSpot-Signature-v3"]


def test_deliveries_pass_the_official_signature_check(sandbox: SandboxControl, receiver: Receiver) -> None:
    sandbox.seed({"name": "Nörd ☂"})
    sandbox.wait_until_delivered()
    headers, body = receiver.headers[0], receiver.bodies[0].decode()
    stamp, signature = headers["x-hubspot-request-timestamp"], headers["x-hubspot-signature-v3"]
    assert Signature.is_valid(signature, SECRET, body, receiver.url, "POST", "v3", stamp)
    assert not Signature.is_valid(signature, SECRET, body + " ", receiver.url, "POST", "v3", stamp)


def test_events_of_a_users_change_have_the_fields_of_the_example(sandbox: SandboxControl, receiver: Receiver) -> None:
    change, creation = json.loads(EXAMPLE.read_text())
    seeded = sandbox.seed({"onboarding_stage": "submitted"}, actor="userId:61000001")
    sandbox.wait_until_delivered()
    [changed], [made] = receiver.of("object.propertyChange"), receiver.of("object.creation")
    assert changed.keys() == change.keys()
    same = ("portalId", "appId", "subscriptionId", "objectTypeId", "propertyName", "propertyValue", "changeSource")
    assert {name: changed[name] for name in same} == {name: change[name] for name in same}
    assert (changed["sourceId"], changed["attemptNumber"]) == ("userId:61000001", 0)
    assert changed["objectId"] == int(seeded.company_id)
    assert made.keys() == creation.keys()


def test_own_writes_come_back_as_events_of_the_integration(
    sandbox: SandboxControl, receiver: Receiver, hubspot: httpx.Client
) -> None:
    seeded = sandbox.seed({"name": "North"}, actor="userId:61000001")
    hubspot.patch(f"{COMPANIES}/{seeded.company_id}", json={"properties": {"counterfoil_state": "running"}})
    sandbox.wait_until_delivered()
    [echo] = [event for event in receiver.events() if event.get("propertyName") == "counterfoil_state"]
    assert (echo["changeSource"], echo["sourceId"]) == ("INTEGRATION", "7700123")


def test_only_subscribed_properties_are_sent(sandbox: SandboxControl, receiver: Receiver) -> None:
    sandbox.settings(webhook_properties=["iban"])
    sandbox.seed({"name": "North", "iban": "X1"})
    sandbox.wait_until_delivered()
    assert [event["propertyName"] for event in receiver.of("object.propertyChange")] == ["iban"]


def test_only_subscribed_types_are_sent(sandbox: SandboxControl, receiver: Receiver) -> None:
    sandbox.settings(webhook_types=["0-2"])
    sandbox.seed({"name": "North"}, contact={"email": "a@example.test"})
    sandbox.wait_until_delivered()
    assert {event["objectTypeId"] for event in receiver.events()} == {"0-2"}


def test_merge_and_deletion_events(sandbox: SandboxControl, receiver: Receiver, hubspot: httpx.Client) -> None:
    first, second = (int(sandbox.seed({"name": name}).company_id) for name in ("North", "Nord"))
    body = {"primaryObjectId": str(first), "objectIdToMerge": str(second)}
    merged = hubspot.post(f"{COMPANIES}/merge", json=body).json()
    hubspot.delete(f"{COMPANIES}/{merged['id']}")
    sandbox.wait_until_delivered()
    [event] = receiver.of("object.merge")
    assert (event["primaryObjectId"], event["mergedObjectIds"]) == (first, [second])
    assert (event["newObjectId"], event["numberOfPropertiesMoved"]) == (int(merged["id"]), 0)
    assert [gone["objectId"] for gone in receiver.of("object.deletion")] == [int(merged["id"])]


def test_refused_deliveries_are_tried_again_with_their_number(sandbox: SandboxControl, receiver: Receiver) -> None:
    receiver.statuses = [500, 400, 302]
    sandbox.settings(webhook_properties=[])
    sandbox.seed({"name": "North"})
    sandbox.wait_until_delivered()
    assert [event["attemptNumber"] for event in receiver.events()] == [0, 1, 2, 3]
    assert len({event["eventId"] for event in receiver.events()}) == 1


def test_deliveries_end_after_the_last_attempt(sandbox: SandboxControl, receiver: Receiver) -> None:
    receiver.statuses = [500] * 9
    sandbox.settings(webhook_properties=[], webhook_attempts=3)
    sandbox.seed({"name": "North"})
    sandbox.wait_until_delivered()
    assert [(event["state"], event["attempts"]) for event in sandbox.webhooks()] == [("given_up", 3)]


def held(sandbox: SandboxControl, **settings: object) -> None:
    """Three events wait, then go out under other settings."""
    sandbox.settings(webhook_properties=["name"], webhook_hold=True)
    sandbox.seed({"name": "North"})
    sandbox.seed({})
    sandbox.settings(**{"webhook_hold": False, **settings})


def test_held_events_wait_and_go_out_together(sandbox: SandboxControl, receiver: Receiver) -> None:
    held(sandbox, webhook_hold=True)
    assert [event["attempts"] for event in sandbox.webhooks()] == [0, 0, 0]
    sandbox.settings(webhook_hold=False)
    sandbox.wait_until_delivered()
    assert [len(json.loads(body)) for body in receiver.bodies] == [3]


def test_a_post_carries_at_most_a_hundred_events(sandbox: SandboxControl, receiver: Receiver) -> None:
    sandbox.settings(webhook_properties=[], webhook_hold=True)
    for _ in range(101):
        sandbox.seed({})
    sandbox.settings(webhook_hold=False)
    sandbox.wait_until_delivered()
    assert [len(json.loads(body)) for body in receiver.bodies] == [100, 1]


@pytest.mark.parametrize(
    ("setting", "arranged"),
    [
        ("webhook_reorder", lambda ids: [*reversed(ids)]),
        ("webhook_duplicate", lambda ids: [*ids, *ids]),
    ],
)
def test_events_can_be_reordered_and_duplicated(
    sandbox: SandboxControl, receiver: Receiver, setting: str, arranged: Callable[[list[int]], list[int]]
) -> None:
    held(sandbox, **{setting: True})
    sandbox.wait_until_delivered()
    ids = [event["event"]["eventId"] for event in sandbox.webhooks()]
    assert [event["eventId"] for event in receiver.events()] == arranged(ids)


def test_undelivered_events_survive_sigkill(tmp_path: Path, receiver: Receiver) -> None:
    settings = {"webhook_urls": json.dumps([receiver.url])}
    with sandbox_process(tmp_path / "s.sqlite", **settings) as running, SandboxControl(running.url) as control:
        control.settings(webhook_hold=True)
        seeded = control.seed({})
        running.kill()
    with sandbox_process(tmp_path / "s.sqlite", **settings) as running, SandboxControl(running.url) as control:
        assert control.settings()["webhook_hold"] is True
        control.settings(webhook_hold=False)
        control.wait_until_delivered()
    eventually(lambda: [event["objectId"] for event in receiver.events()] == [int(seeded.company_id)])
