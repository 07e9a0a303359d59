from pathlib import Path

import pytest
from msgspec import Struct

import build
from relight.model import BUCKETS, TOKENS, TokenColumns, Usage
from relight.store import Store
from relight.store.sql import column_list, insert


class Price(Struct, frozen=True):
    model: str
    provider: str
    prices: bytes | None
    list_version: str


ROWS = [Price("a", "x", b"1", "v"), Price("b", "x", None, "v")]


def test_rows_are_read_as_they_were_inserted_whatever_the_order_of_columns(store: Store) -> None:
    with store.transaction() as database:
        insert(database, "price", ROWS)
    assert store.read(Price, f"select {column_list(Price)} from price order by model") == ROWS


def test_a_query_whose_columns_are_not_the_fields_is_refused(store: Store) -> None:
    with pytest.raises(TypeError, match="Price has"):
        store.read(Price, "select provider, model, prices, list_version from price")


def test_a_conflict_is_settled_as_the_statement_says(tmp_path: Path) -> None:
    with build.open_home(tmp_path) as store:
        for _ in range(2):
            with store.transaction() as database:
                insert(
                    database, "price", ROWS, on_conflict="on conflict (model, provider) do nothing"
                )
        assert len(store.read(Price, f"select {column_list(Price)} from price")) == 2


def test_every_token_bucket_is_a_field_and_a_column_in_the_order_of_the_list() -> None:
    assert TokenColumns.__struct_fields__ == TOKENS
    assert set(BUCKETS) == set(Usage.__struct_fields__)
