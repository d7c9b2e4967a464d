"""One credential for all processes: renewed once however many meet its end, stored before it is used, refused once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from sandboxes import sandbox_process
from store_builder import Book
from together import together

from business_store.credentials import StoredCredential, credentials, renew
from connectors.credentials import Renewable
from connectors.hubspot import HubSpot
from connectors.hubspot_oauth import PATH, HubSpotTokens
from domain.credentials import Verdict
from domain.errors import CredentialRefused, NotFound, ReadFailed
from sandbox.control import SandboxControl

PORTAL = "90210001"
ENDPOINT = {"method": "POST", "path_prefix": PATH}


@pytest.fixture(scope="module")
def own_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxControl]:
    """The session's is at work for others and must not be emptied."""
    folder = tmp_path_factory.mktemp("credentials")
    with sandbox_process(folder / "sandbox.db") as running, SandboxControl(running.url) as control:
        yield control


@pytest.fixture
def sandbox(own_sandbox: SandboxControl) -> SandboxControl:
    own_sandbox.reset()
    return own_sandbox


@pytest.fixture
def credential(book: Book, sandbox: SandboxControl) -> Renewable:
    tokens = HubSpotTokens(sandbox.base_url, "sandbox-client-id", "sandbox-oauth-secret", timedelta(seconds=10))
    return Renewable(StoredCredential(book.store, "hubspot", PORTAL, "rt-sandbox"), tokens, timedelta(seconds=30))


@pytest.fixture
def hubspot(credential: Renewable, sandbox: SandboxControl) -> Iterator[HubSpot]:
    made = HubSpot(sandbox.base_url, credential, portal_id=PORTAL, app_id="7700123")
    yield made
    made.close()


def renewals(sandbox: SandboxControl) -> int:
    return len(sandbox.requests(path_prefix=PATH))


def ended(sandbox: SandboxControl) -> None:
    """Every access token that was issued is refused from now on."""
    sandbox.settings(oauth_epoch=sandbox.settings()["oauth_epoch"] + 1)


def aged(book: Book) -> None:
    """The stored token was not renewed just now."""
    with book.forged() as superuser:
        superuser.execute("UPDATE credential SET renewed_at = renewed_at - interval '1 hour'")


@pytest.mark.parametrize("rotates", [False, True])
def test_many_meet_the_same_end_and_one_renews(
    book: Book, sandbox: SandboxControl, hubspot: HubSpot, *, rotates: bool
) -> None:
    sandbox.settings(oauth_rotates=rotates)
    assert hubspot.check()
    assert renewals(sandbox) == 1
    for count in (2, 3):
        ended(sandbox)
        aged(book)
        assert not [each for each in together([hubspot.check] * 8) if isinstance(each, Exception)]
        assert renewals(sandbox) == count
    assert book.rows("SELECT version FROM credential")[0].version == 3


def test_a_token_that_expires_by_our_clock_is_renewed_without_a_refusal(
    book: Book, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    hubspot.check()
    with book.forged() as superuser:
        superuser.execute("UPDATE credential SET expires_at = now()")
    hubspot.check()
    assert renewals(sandbox) == 2
    assert [each for each in sandbox.requests() if each["status"] == 401] == []


def test_a_refused_renewal_is_asked_once_and_refuses_without_a_request(
    book: Book, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    hubspot.check()
    ended(sandbox)
    aged(book)
    sandbox.settings(oauth_refuses=True)
    outcomes = together([hubspot.check] * 5)
    assert {type(each) for each in outcomes} == {CredentialRefused}
    asked = len(sandbox.requests())
    with pytest.raises(CredentialRefused) as refused:
        hubspot.check()
    assert refused.value.next_actions == ("counterfoil credential renew hubspot",)
    assert (renewals(sandbox), len(sandbox.requests())) == (2, asked)
    sandbox.settings(oauth_refuses=False)
    book.store.once(lambda connection: renew(connection, "hubspot", "rt-sandbox"))
    assert hubspot.check()


def test_a_lost_answer_to_a_renewal_refuses_nothing(book: Book, sandbox: SandboxControl, hubspot: HubSpot) -> None:
    sandbox.fault("drop_after_commit", match=ENDPOINT)
    with pytest.raises(ReadFailed) as failed:
        hubspot.check()
    assert not isinstance(failed.value, CredentialRefused)
    assert hubspot.check()
    assert renewals(sandbox) == 2


def test_a_lost_answer_burns_a_token_that_is_good_for_one_use(
    book: Book, sandbox: SandboxControl, hubspot: HubSpot
) -> None:
    """Nobody can know the new one: a person connects the app again, and gives its token."""
    sandbox.settings(oauth_rotates=True)
    sandbox.fault("drop_after_commit", match=ENDPOINT)
    with pytest.raises(ReadFailed):
        hubspot.check()
    with pytest.raises(CredentialRefused):
        hubspot.check()
    book.store.once(lambda connection: renew(connection, "hubspot", "rt-1"))
    assert hubspot.check()


def test_a_fresh_token_that_is_refused_is_not_renewed_again_and_again(
    book: Book, sandbox: SandboxControl, credential: Renewable
) -> None:
    token = credential.bearer()
    assert token is not None
    assert credential.refused(token) is Verdict.REFUSED
    assert renewals(sandbox) == 1


def test_a_renewer_that_died_keeps_others_out_for_a_while_only(book: Book, credential: Renewable) -> None:
    vault = credential.vault
    assert vault.current().version == 0
    assert vault.claim(0) == "rt-sandbox"
    assert vault.claim(0) is None
    with book.forged() as superuser:
        superuser.execute("UPDATE credential SET renewing_until = now() - interval '1 second'")
    assert vault.claim(0) == "rt-sandbox"


def test_tokens_are_in_no_listing_and_no_representation(book: Book, credential: Renewable, hubspot: HubSpot) -> None:
    hubspot.check()
    shown = repr((credential, credential.vault, credential.vault.current(), credential.exchange))
    with book.store.reading() as connection:
        shown += repr(credentials(connection))
    secrets = (credential.bearer(), "rt-sandbox", "sandbox-oauth-secret")
    assert [secret for secret in secrets if secret is None or secret in shown] == []


def test_only_what_is_kept_can_be_replaced(book: Book) -> None:
    with pytest.raises(NotFound):
        book.store.once(lambda connection: renew(connection, "stripe", "rt-new"))
