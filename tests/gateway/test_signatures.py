"""Signatures: known answers first, then everything that must not pass."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inbound_samples import vectors
from standardwebhooks import Webhook
from stripe import WebhookSignature

from domain.deliveries import ReceiptVerdict
from domain.errors import InvalidInput
from gateway.signatures import (
    hubspot_v3_verdict,
    sign_hubspot_v3,
    sign_standard_webhook,
    sign_stripe,
    standard_webhooks_verdict,
    stripe_verdict,
)

GENUINE, BAD, STALE = ReceiptVerdict.GENUINE, ReceiptVerdict.BAD_SIGNATURE, ReceiptVerdict.STALE_TIMESTAMP
SECRET, OLD_SECRET = "test-client-secret-0001", "test-client-secret-0000"
URL = "https://hooks.example.test/hubspot"
STAMP_MS = 1707926838792
NOW = datetime.fromtimestamp(STAMP_MS / 1000, UTC)
WHSEC = vectors()["standard_webhooks_v1"]["secret"]
OTHER_WHSEC = "whsec_" + base64.b64encode(b"another secret of ours").decode()
SECONDS = STAMP_MS // 1000
BODY = b"[]"


def hubspot(headers: dict[str, str], body: bytes = BODY, now: datetime = NOW) -> ReceiptVerdict:
    return hubspot_v3_verdict([SECRET, OLD_SECRET], URL, headers, body, now)


def stamped(stamp: str) -> dict[str, str]:
    """Signed as HubSpot would, whatever the text of the timestamp."""
    source = b"POST" + URL.encode() + BODY + stamp.encode("utf-8", "surrogatepass")
    signature = base64.b64encode(hmac.new(SECRET.encode(), source, hashlib.sha256).digest()).decode()
    return {"X-HubSpot-Signature-v3": signature, "X-HubSpot-Request-Timestamp": stamp}


@pytest.mark.parametrize("name", ["hubspot_v3", "hubspot_v3_published_sdk_vector"])
def test_hubspot_known_answers(name: str) -> None:
    vector = vectors()[name]
    signed = sign_hubspot_v3(vector["secret"], vector["uri"], int(vector["timestamp_ms"]), vector["body"].encode())
    assert signed["X-HubSpot-Signature-v3"] == vector["header X-HubSpot-Signature-v3"]
    now = datetime.fromtimestamp(int(vector["timestamp_ms"]) / 1000, UTC)
    assert hubspot_v3_verdict(vector["secret"], vector["uri"], signed, vector["body"].encode(), now) is GENUINE


def test_the_url_is_signed_with_twelve_encodings_decoded() -> None:
    encoded = "https://h.example/a?u=%3A%2F%3F%40%21%24%27%28%29%2A%2C%3B%3a&keep=%20%25%2B%C3%BC%252F"
    decoded = "https://h.example/a?u=:/?@!$'()*,;:&keep=%20%25%2B%C3%BC%252F"
    source = b"POST" + decoded.encode() + BODY + str(STAMP_MS).encode()
    expected = base64.b64encode(hmac.new(SECRET.encode(), source, hashlib.sha256).digest()).decode()
    headers = {"x-hubspot-signature-v3": expected, "x-hubspot-request-timestamp": str(STAMP_MS)}
    assert hubspot_v3_verdict(SECRET, encoded, headers, BODY, NOW) is GENUINE
    assert sign_hubspot_v3(SECRET, encoded, STAMP_MS, BODY)["X-HubSpot-Signature-v3"] == expected


def test_c08_the_raw_bytes_are_signed() -> None:
    sent = b'{ "amount": 1.10, "n":"J\\u00f6rg" , "e":1E2}'
    respaced = '{"amount":1.10,"n":"Jörg","e":1E2}'.encode()
    headers = sign_hubspot_v3(SECRET, URL, STAMP_MS, sent)
    assert hubspot(headers, sent) is GENUINE
    assert hubspot(headers, respaced) is BAD
    signed = sign_standard_webhook(WHSEC, "msg_1", SECONDS, sent)
    assert standard_webhooks_verdict([WHSEC], signed, sent, NOW) is GENUINE
    assert standard_webhooks_verdict([WHSEC], signed, respaced, NOW) is BAD


def test_c08_bytes_that_are_no_text_are_signed_like_any_others() -> None:
    sent = b"\xff\x00\xed\xa0\x80"
    assert hubspot(sign_hubspot_v3(SECRET, URL, STAMP_MS, sent), sent) is GENUINE
    signed = sign_standard_webhook(WHSEC, "msg_1", SECONDS, sent)
    assert standard_webhooks_verdict([WHSEC], signed, sent, NOW) is GENUINE


@pytest.mark.parametrize(
    ("away", "verdict"),
    [
        (timedelta(0), GENUINE),
        (timedelta(seconds=300), GENUINE),
        (timedelta(seconds=-300), GENUINE),
        (timedelta(seconds=300, milliseconds=1), STALE),
        (timedelta(seconds=301), STALE),
        (timedelta(minutes=-10), STALE),
    ],
)
def test_c10_within_five_minutes_either_way(away: timedelta, verdict: ReceiptVerdict) -> None:
    assert hubspot(stamped(str(STAMP_MS)), now=NOW + away) is verdict


@pytest.mark.parametrize(
    "stamp",
    [
        "",
        "12e12",
        "١٧٠٧٩٢٦٨٣٨٧٩٢",
        "1707926838792.0",
        "1707926838",
        "-1707926838792",
        " 1707926838792",
        "1707926838792\n",
        "9" * 13,
        "9" * 5000,
        "\ud800",
    ],
)
def test_c10_anything_but_current_milliseconds_is_stale(stamp: str) -> None:
    assert hubspot(stamped(stamp)) is STALE


def test_c10_the_header_text_is_hashed_unchanged() -> None:
    headers = {**stamped(str(STAMP_MS)), "X-HubSpot-Request-Timestamp": str(STAMP_MS + 1)}
    assert hubspot(headers) is BAD


def test_the_old_secret_passes_during_a_rotation() -> None:
    assert hubspot(sign_hubspot_v3(OLD_SECRET, URL, STAMP_MS, BODY)) is GENUINE
    assert hubspot(sign_hubspot_v3("test-client-secret-0002", URL, STAMP_MS, BODY)) is BAD


@pytest.mark.parametrize("secrets", ["", [], [""], ["", SECRET]])
def test_an_unset_secret_matches_nothing(secrets: str | list[str]) -> None:
    signed_with_nothing = sign_hubspot_v3("", URL, STAMP_MS, BODY)
    assert hubspot_v3_verdict(secrets, URL, signed_with_nothing, BODY, NOW) is BAD
    empty_key = f"v1,{base64.b64encode(hmac.new(b'', b'm.%d.[]' % SECONDS, hashlib.sha256).digest()).decode()}"
    headers = {"webhook-id": "m", "webhook-timestamp": str(SECONDS), "webhook-signature": empty_key}
    assert standard_webhooks_verdict(["", "whsec_", "whsec_!!"], headers, BODY, NOW) is BAD


def test_a_secret_given_as_text_is_one_secret() -> None:
    signed_with_a_letter = sign_hubspot_v3(SECRET[0], URL, STAMP_MS, BODY)
    assert hubspot_v3_verdict(SECRET, URL, signed_with_a_letter, BODY, NOW) is BAD


def test_another_url_is_another_signature() -> None:
    headers = sign_hubspot_v3(SECRET, "https://elsewhere.example.test/hubspot", STAMP_MS, BODY)
    assert hubspot(headers) is BAD


def test_header_names_have_no_case_and_come_once() -> None:
    signed = sign_hubspot_v3(SECRET, URL, STAMP_MS, BODY)
    assert hubspot({name.upper(): value for name, value in signed.items()}) is GENUINE
    twice = {**signed, "x-hubspot-signature-v3": "guess"}
    assert hubspot(twice) is BAD


@pytest.mark.parametrize("signature", ["", "é", "\ud800", "x" * 5000])
def test_a_signature_that_is_no_text_of_ours(signature: str) -> None:
    assert hubspot({**stamped(str(STAMP_MS)), "X-HubSpot-Signature-v3": signature}) is BAD


def test_standard_webhooks_known_answer() -> None:
    vector = vectors()["standard_webhooks_v1"]
    stamp, body = int(vector["webhook-timestamp"]), vector["body"].encode()
    signed = sign_standard_webhook(vector["secret"], vector["webhook-id"], stamp, body)
    assert signed == {name: vector[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    now = datetime.fromtimestamp(stamp, UTC)
    assert standard_webhooks_verdict(vector["secret"], signed, body, now) is GENUINE


def test_standard_webhooks_agrees_with_the_reference_library() -> None:
    theirs = Webhook(WHSEC).sign("msg_7", datetime.fromtimestamp(SECONDS, UTC), '{"n":"Jörg"}')
    ours = sign_standard_webhook(WHSEC, "msg_7", SECONDS, '{"n":"Jörg"}'.encode())
    assert ours["webhook-signature"] == theirs


def test_standard_webhooks_rotation_on_both_sides() -> None:
    signed = sign_standard_webhook(WHSEC, "msg_1", SECONDS, BODY)
    other = sign_standard_webhook(OTHER_WHSEC, "msg_1", SECONDS, BODY)["webhook-signature"]
    several = {**signed, "webhook-signature": f"v1a,AAAA {other} {signed['webhook-signature']}"}
    assert standard_webhooks_verdict([WHSEC], several, BODY, NOW) is GENUINE
    assert standard_webhooks_verdict(["whsec_c29tZXRoaW5n", "not base64!", WHSEC], signed, BODY, NOW) is GENUINE
    assert standard_webhooks_verdict([OTHER_WHSEC], signed, BODY, NOW) is BAD


@pytest.mark.parametrize("change", [{"webhook-id": "msg_2"}, {"webhook-id": ""}, {"webhook-signature": "v1"}])
def test_standard_webhooks_sign_the_id(change: dict[str, str]) -> None:
    signed = sign_standard_webhook(WHSEC, "msg_1", SECONDS, BODY)
    assert standard_webhooks_verdict([WHSEC], {**signed, **change}, BODY, NOW) is BAD


@pytest.mark.parametrize("message", ["", "a b", "msg\n", "é", "x" * 256])
def test_a_signed_id_that_is_no_key_is_refused(message: str) -> None:
    signed = sign_standard_webhook(WHSEC, message, SECONDS, BODY)
    assert standard_webhooks_verdict([WHSEC], signed, BODY, NOW) is BAD


def test_another_version_of_signature_is_not_ours() -> None:
    signed = sign_standard_webhook(WHSEC, "msg_1", SECONDS, BODY)
    renamed = {**signed, "webhook-signature": signed["webhook-signature"].replace("v1,", "v2,")}
    assert standard_webhooks_verdict([WHSEC], renamed, BODY, NOW) is BAD


@pytest.mark.parametrize("seconds", [-301, 302, 600])
def test_c10_standard_webhooks_within_five_minutes_either_way(seconds: int) -> None:
    signed = sign_standard_webhook(WHSEC, "msg_1", SECONDS + seconds, BODY)
    assert standard_webhooks_verdict([WHSEC], signed, BODY, NOW) is STALE


def test_a_bad_signing_secret_is_refused() -> None:
    for secret in ("", "whsec_", "whsec_!!"):
        with pytest.raises(InvalidInput):
            sign_standard_webhook(secret, "msg_1", SECONDS, BODY)


NAMES = st.sampled_from(
    [*stamped("1"), *sign_standard_webhook(WHSEC, "m", 1, b""), "WEBHOOK-ID", "x-hubspot-signature-v3", "other"]
)
ANY_TEXT = st.text(st.one_of(st.characters(), st.characters(categories=["Cs", "Nd"])), max_size=30)
VALUES = st.one_of(ANY_TEXT, st.just(str(STAMP_MS)), st.just(str(SECONDS)), st.from_regex(r"v1,[A-Za-z+/=]*"))


@given(st.dictionaries(NAMES, VALUES), st.binary(), st.lists(ANY_TEXT))
@settings(deadline=None)
def test_arbitrary_headers_never_raise_and_never_pass(headers: dict[str, str], body: bytes, extra: list[str]) -> None:
    assert hubspot_v3_verdict([SECRET], URL, headers, body, NOW) in (BAD, STALE)
    assert standard_webhooks_verdict([WHSEC], headers, body, NOW) in (BAD, STALE)
    assert hubspot_v3_verdict(extra, URL, headers, body, NOW) in (BAD, STALE)
    assert standard_webhooks_verdict(extra, headers, body, NOW) in (BAD, STALE)


# ── Stripe ──────────────────────────────────────────────────────────────────────────────────────────────────────────

STRIPE = "whsec_test_stripe_example"


def stripe(header: str, body: bytes = BODY, now: datetime = NOW) -> ReceiptVerdict:
    return stripe_verdict([STRIPE, "whsec_old"], {"stripe-signature": header}, body, now)


def v1(stamp: str = str(SECONDS), secret: str = STRIPE, body: bytes = BODY) -> str:
    return hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def test_stripe_known_answer() -> None:
    vector = vectors()["stripe"]
    body, stamp = vector["body"].encode(), int(vector["Stripe-Signature"].split(",")[0].removeprefix("t="))
    assert sign_stripe(vector["secret"], stamp, body) == {"Stripe-Signature": vector["Stripe-Signature"]}
    headers = {"Stripe-Signature": vector["Stripe-Signature"]}
    assert stripe_verdict(vector["secret"], headers, body, datetime.fromtimestamp(stamp, UTC)) is GENUINE


def test_stripe_agrees_with_its_own_library() -> None:
    header = sign_stripe(STRIPE, SECONDS, BODY)["Stripe-Signature"]
    assert WebhookSignature.verify_header("[]", header, STRIPE, None)


def test_stripe_may_sign_with_several_secrets_and_schemes_at_once() -> None:
    assert stripe(f"t={SECONDS},v1={'0' * 64},v1={v1()},v0={'1' * 64}") is GENUINE
    assert stripe(f"t={SECONDS},v1={v1(secret='whsec_old')}") is GENUINE
    assert stripe(f"v1={v1()},t={SECONDS}") is GENUINE


def test_c08_stripe_signs_the_bytes_as_they_came() -> None:
    odd = b'{ "amount": 1.10, "n":"J\\u00f6rg" , "e":1E2}'
    header = sign_stripe(STRIPE, SECONDS, odd)["Stripe-Signature"]
    assert stripe(header, odd) is GENUINE
    assert stripe(header, b'{"amount":1.10,"n":"J\\u00f6rg","e":1E2}') is BAD


@pytest.mark.parametrize(
    ("age", "verdict"), [(0, GENUINE), (300, GENUINE), (301, STALE), (-300, GENUINE), (-301, STALE)]
)
def test_c10_stripes_time_may_be_five_minutes_off_either_way(age: int, verdict: ReceiptVerdict) -> None:
    now = datetime.fromtimestamp(SECONDS + age, UTC)
    assert stripe(f"t={SECONDS},v1={v1()}", now=now) is verdict


@pytest.mark.parametrize("stamp", ["", "12e12", "-1", "1707926838.0", "١٧٠٧٩٢٦٨٣٨", "9" * 400, " 1707926838", "nan"])
def test_c10_a_time_of_stripes_that_is_no_number_is_refused(stamp: str) -> None:
    assert stripe(f"t={stamp},v1={v1(stamp)}") is STALE


@pytest.mark.parametrize(
    ("header", "verdict"),
    [
        ("", STALE),
        (f"v1={v1()}", STALE),
        (f"t={SECONDS},t={SECONDS},v1={v1()}", STALE),
        (f"t={SECONDS}", BAD),
        (f"t={SECONDS},v1=", BAD),
        (f"t={SECONDS},v0={v1()}", BAD),
        (f"t={SECONDS},v1={v1(secret='')}", BAD),
        (f"t={SECONDS},v1={v1()[:-1]}", BAD),
        (f"t={SECONDS},v1=é", BAD),
    ],
)
def test_what_stripe_did_not_sign(header: str, verdict: ReceiptVerdict) -> None:
    assert stripe(header) is verdict


def test_without_a_secret_nobody_can_sign_for_stripe() -> None:
    for unset in ("", [], [""]):
        assert stripe_verdict(unset, sign_stripe("", SECONDS, BODY), BODY, NOW) is BAD


@given(st.text(), st.binary())
@settings(deadline=None)
def test_no_header_of_stripes_raises(header: str, body: bytes) -> None:
    assert stripe(header, body) in (BAD, STALE)
