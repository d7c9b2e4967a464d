"""One credential for all processes: renewed once however many meet its end, stored before it is used, refused once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta

import pytest
from store_builder import Book
from together import together

from business_store.credentials import StoredCredential, credentials, renew
from business_store.limits import hold
from connectors.credentials import Renewable
from connectors.hubspot import HubSpot
from connectors.hubspot_oauth import PATH, HubSpotTokens
from domain.credentials import Account, Renewed, Verdict
from domain.errors import CredentialRefused, NotFound, ReadFailed
from sandbox.control import SandboxControl
from sweep.holds import Holds

PORTAL = "90210001"
ENDPOINT = {"method": "POST", "path_prefix": PATH}


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


# A refusal that is over without anybody's word.


def refused_by_another(book: Book, credential: Renewable) -> int:
    """One renewer is slow; another one takes over and is refused, and all runs are held. The version in dispute."""
    vault, account = credential.vault, Account("hubspot", PORTAL, credential.mark())
    version = vault.current().version
    assert vault.claim(version)
    with book.forged() as superuser:
        superuser.execute("UPDATE credential SET renewing_until = now() - interval '1 second'")
    assert vault.claim(version)
    vault.given_up(version, refused=True)
    assert book.store.once(lambda connection: hold(connection, account, "credential_refused"))
    return version


def held(book: Book) -> list[str]:
    return [row.scope for row in book.rows("SELECT scope FROM shared_limit WHERE held IS NOT NULL")]


def test_a_renewal_that_succeeds_late_ends_refusal_and_hold(book: Book, credential: Renewable) -> None:
    version = refused_by_another(book, credential)
    assert (credential.held(), held(book)) == (True, [PORTAL])
    credential.vault.renewed(version, Renewed("at-late", timedelta(minutes=30)))
    assert (credential.held(), credential.bearer(), held(book)) == (False, "at-late", [])


def test_a_renewal_that_comes_to_nothing_late_takes_no_refusal_back(book: Book, credential: Renewable) -> None:
    version = refused_by_another(book, credential)
    credential.vault.given_up(version, refused=False)
    assert (credential.held(), held(book)) == (True, [PORTAL])


def test_who_was_refused_before_a_renewal_holds_nobody_after_it(book: Book, credential: Renewable) -> None:
    account = Account("hubspot", PORTAL, credential.mark())
    assert credential.bearer()
    assert not book.store.once(lambda connection: hold(connection, account, "credential_refused"))


def configured(book: Book, credential: Renewable, seed: str) -> Renewable:
    """A process that was started with this refresh token."""
    return Renewable(StoredCredential(book.store, "hubspot", PORTAL, seed), credential.exchange, credential.patience)


def test_another_refresh_token_in_the_settings_counts_once_the_stored_one_is_refused(
    book: Book, sandbox: SandboxControl, credential: Renewable, hubspot: HubSpot
) -> None:
    sandbox.settings(oauth_refuses=True)
    with pytest.raises(CredentialRefused):
        hubspot.check()
    book.store.once(lambda c: hold(c, Account("hubspot", PORTAL, credential.mark()), "credential_refused"))
    assert Holds(book.store, {"hubspot": hubspot}).once() == 0
    sandbox.settings(oauth_refuses=False)
    later = configured(book, credential, "rt-sandbox-2")
    with closing(HubSpot(sandbox.base_url, later, portal_id=PORTAL, app_id="7700123")) as started:
        assert Holds(book.store, {"hubspot": started}).once() == 1
    assert held(book) == []
    assert not credential.held()
    assert renewals(sandbox) == 1


def test_settings_of_two_processes_do_not_put_each_other_back(book: Book, credential: Renewable) -> None:
    credential.vault.current()
    later = configured(book, credential, "rt-later")
    taken = []
    for one in (later, credential, later, credential):
        now = one.vault.current()
        one.vault.given_up(now.version, refused=True)
        taken.append(one.vault.current().version)
    assert taken == [1, 1, 1, 1]
    assert [bytes(row.refresh_token) for row in book.rows("SELECT refresh_token FROM credential")] == [b"rt-later"]
