"""A new demo removes the data of an earlier demo and nothing else."""

from pathlib import Path

from headrace.cli.pipeline.demo import begin_anew
from headrace.testing import Broker


def test_an_earlier_demos_topics_groups_and_files_are_removed_and_others_stay(
    tmp_path: Path,
) -> None:
    with Broker() as broker:
        helper = broker.headrace
        for name in ("mine", "demo-orders-of-mine"):
            helper.create_topic(name)
        helper.commit("demo-orders-of-mine", {("mine", 0): 0})
        begin_anew(broker.bootstrap_servers, tmp_path)
        helper.produce("demo-orders", "left over")
        helper.create_topic("demo-orders.dlq")
        helper.create_topic("demo-orders.dlq.replayed")
        helper.commit("demo-orders", {("demo-orders", 0): 1})
        helper.commit("demo-orders.dead-letters", {("demo-orders", 0): 1})
        left = tmp_path / "lake" / "orders" / "part.parquet"
        left.parent.mkdir(parents=True)
        left.touch()
        (tmp_path / "my-notes").touch()

        begin_anew(broker.bootstrap_servers, tmp_path)
        assert set(helper.topics()) == {"mine", "demo-orders-of-mine", "demo-orders"}
        assert helper.consume("demo-orders") == []
        assert set(helper.groups()) == {"demo-orders-of-mine"}
        assert not left.exists()
        assert (tmp_path / "my-notes").exists()
        assert (tmp_path / "pipeline.yaml").exists()
