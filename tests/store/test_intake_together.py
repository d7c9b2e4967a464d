"""Bodies taken in together: every element has the outcome that it would have alone."""

from __future__ import annotations

from dataclasses import replace

from store_builder import Book, changed, company

from business_store.intake import Accepted, Received, accept_all
from domain.deliveries import Change, Delivery, Disposition, Quarantined, Receipt, ReceiptVerdict

GENUINE = ReceiptVerdict.GENUINE
IBAN = {"property_name": "iban", "property_value": "DE02120300000000202051"}


def body(text: str, *elements: Delivery | Quarantined, verdict: ReceiptVerdict = GENUINE) -> Received:
    return Received(Receipt("hubspot", text.encode(), verdict), elements)


def trigger(object_id: str, key: str) -> Delivery:
    return changed(object_id, dedupe_key=key)


def taken(book: Book, *bodies: Received) -> list[list[Accepted]]:
    return book.store.write(lambda connection: accept_all(connection, bodies, [book.process]))


def merged(survivor: str, *gone: str) -> Delivery:
    others = tuple(company(each) for each in gone)
    plain = changed(survivor, dedupe_key="evt-merge", property_name="", property_value=None)
    return replace(plain, change=Change.MERGED, merged_from=others)


def test_every_kind_of_element_beside_every_other(book: Book) -> None:
    known = book.accept_trigger("500")
    outcomes = taken(
        book,
        body("1", trigger("501", "evt-1"), Quarantined(1, "evt-bad", "no subject")),
        body("2", trigger("502", "evt-2")),
        body("3", trigger("501", "evt-3"), replace(trigger("503", "evt-1"), index=1)),
        body("4", trigger("504", "evt-4"), verdict=ReceiptVerdict.BAD_SIGNATURE),
        body(
            "5",
            changed("500", dedupe_key="evt-5", **IBAN),
            replace(changed("599", dedupe_key="evt-6", **IBAN), index=1),
        ),
        body("6", changed("500", dedupe_key="evt-7", property_name="unrelated", property_value="x")),
        body("2", replace(trigger("502", "evt-2"), index=0)),
    )
    said = [[(each.disposition, each.reason) for each in of_body] for of_body in outcomes]
    assert said == [
        [(Disposition.STARTED, ""), (Disposition.QUARANTINED, "no subject")],
        [(Disposition.STARTED, "")],
        [(Disposition.PENDING_READ, "already_exists"), (Disposition.DUPLICATE, "")],
        [],
        [(Disposition.PENDING_READ, ""), (Disposition.NO_REQUEST, "")],
        [(Disposition.IRRELEVANT, "")],
        [(Disposition.DUPLICATE, "")],
    ]
    assert outcomes[2][0].run_id == outcomes[0][0].run_id != outcomes[1][0].run_id
    assert outcomes[4][0].run_id == known
    assert (book.count("run"), book.count("request"), book.count("receipt")) == (3, 3, 7)
    assert book.audit() == []


def test_a_receipt_without_elements_and_nothing_at_all(book: Book) -> None:
    assert taken(book, body("[]")) == [[]]
    assert taken(book, body("[]"), body("[]")) == [[], []]
    assert book.count("receipt") == 1


def test_the_survivor_of_a_merge_finds_its_request_however_they_come_together(book: Book) -> None:
    """The CRM repeats every property of the survivor beside the merge itself, the trigger among them."""
    run_id = book.accept_trigger("201")
    outcomes = taken(book, body("1", trigger("305", "evt-zz")), body("2", merged("305", "201")))
    assert [each.run_id for of_body in outcomes for each in of_body] == [run_id, run_id]
    assert (book.count("run"), book.facts(run_id).subject) == (1, company("305"))


def test_a_request_made_by_hand_gets_its_original_run(book: Book) -> None:
    rehearsal = book.rehearse("501")
    (started,), (again,) = taken(book, body("1", trigger("501", "evt-1")), body("2", trigger("501", "evt-2")))
    assert (started.disposition, again.reason) == (Disposition.STARTED, "already_exists")
    assert started.run_id == again.run_id != rehearsal
    assert book.count("request") == 1
