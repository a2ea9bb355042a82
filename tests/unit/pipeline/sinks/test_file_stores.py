"""A bucket's settings reach each library under its own names, and secrets are not shown."""

from pathlib import Path

import pytest
from pyarrow import fs

from headrace.pipeline.application.spec_loader import parse_spec
from headrace.pipeline.runner.flow_factory import open_sink
from headrace.pipeline.sinks.file_stores import (
    Bucket,
    bucket_of,
    delta_options,
    iceberg_options,
    open_store,
    path_of,
    rooted,
)
from headrace.pipeline.sinks.table_sink import SinkError

WORDS = {
    "deltalake": {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9000",
        "AWS_REGION": "eu-north-1",
        "AWS_ALLOW_HTTP": "true",
    },
    "pyiceberg": {
        "s3.access-key-id": "id",
        "s3.secret-access-key": "hidden",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-north-1",
        "s3.path-style-access": "true",
    },
    "short": {
        "access_key_id": "id",
        "secret_access_key": "hidden",
        "endpoint": "http://127.0.0.1:9000",
        "region": "eu-north-1",
        "path_style": "true",
    },
}


@pytest.mark.parametrize("words", WORDS)
def test_setting_aliases_mean_the_same(words: str) -> None:
    bucket, others = bucket_of(WORDS[words])
    assert bucket == Bucket("id", "hidden", "", "eu-north-1", "http://127.0.0.1:9000")
    assert others == {}
    assert "hidden" not in repr(bucket)
    assert delta_options("s3://lake/orders", WORDS[words]) == {
        **WORDS["deltalake"],
        "AWS_CONDITIONAL_PUT": "etag",
    }
    assert iceberg_options(WORDS[words]) == {
        "s3.access-key-id": "id",
        "s3.secret-access-key": "hidden",
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-north-1",
    }


def test_concurrent_writers_are_detected_unless_the_spec_changes_it() -> None:
    mine = {"aws_conditional_put": "disabled", "timeout": "5s"}
    assert delta_options("s3://lake/orders", mine) == mine
    assert delta_options("s3://lake/orders", None) == {"AWS_CONDITIONAL_PUT": "etag"}
    assert delta_options("lake/orders", None) is None


def test_a_custom_endpoint_gets_a_region_and_path_style_buckets() -> None:
    bucket, _ = bucket_of({"endpoint": "store.example:9000"})
    assert bucket == Bucket(endpoint="https://store.example:9000", region="us-east-1")
    hosted, _ = bucket_of({"endpoint": "store.example", "path_style": "false"})
    assert hosted.virtual_hosted
    assert hosted == bucket_of({"endpoint": "store.example", "force_virtual_addressing": "1"})[0]


def test_plain_http_can_be_rejected() -> None:
    with pytest.raises(SinkError, match="allow_http is false"):
        bucket_of({"endpoint": "http://store.example", "allow_http": "false"})


def test_folder_names_may_contain_url_delimiters(tmp_path: Path) -> None:
    store, path = open_store(f"{tmp_path}/a#b?c", None)
    assert isinstance(store, fs.LocalFileSystem)
    assert path == f"{tmp_path}/a#b?c"
    assert path_of(f"file://{tmp_path}/x") == f"{tmp_path}/x"
    assert path_of("s3://lake/orders/") == "lake/orders"


def test_remote_workers_get_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert rooted("lake/orders") == f"{tmp_path}/lake/orders"
    assert rooted("s3://lake/orders") == "s3://lake/orders"


def test_an_iceberg_table_in_a_bucket_has_its_catalog_in_the_checkpoint_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "hidden")
    spec = parse_spec(
        f"""
        pipeline: p
        source: {{topics: [t]}}
        sink:
          format: iceberg
          table: shop.orders
          warehouse: s3://lake/warehouse
          storage_options: {{endpoint: "http://127.0.0.1:1", secret_access_key: "${{KEY}}"}}
        checkpoint: {tmp_path}/checkpoint
        """
    )
    assert "hidden" not in repr(spec)
    sink = open_sink(spec.resolved()[0], {})
    assert sink.last_commit("p", ()) is None
    assert (tmp_path / "checkpoint" / "catalog.db").exists()
