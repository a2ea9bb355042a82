"""Commands work on a cluster in which some brokers are down."""

import json
from pathlib import Path

from headrace.testing import Cluster
from support.cli.command import Cli


def test_a_reassignment_to_a_dead_broker_can_be_listed_and_cancelled(tmp_path: Path) -> None:
    """Metadata lists a broker for some time after its crash, so the command may get no response."""
    settings = {"min.insync.replicas": "1", "default.replication.factor": "2"}
    with Cluster(3, settings=settings) as cluster:
        cli = Cli(cluster.bootstrap_servers, tmp_path)
        cluster.headrace.create_topic("orders")
        (partition,) = json.loads(cli.ok("topic", "describe", "orders", "--format", "json"))[0][
            "partitions"
        ]
        stays, goes = partition["replicas"]
        (dead,) = {1, 2, 3} - {stays, goes}
        cluster.kill(dead)
        plan = tmp_path / "plan.json"
        item = {"topic": "orders", "partition": 0, "replicas": [dead, stays]}
        plan.write_text(json.dumps({"version": 1, "partitions": [item]}))
        cli.ok("cluster", "reassign", "--plan", str(plan), "--execute", "--no-wait")
        (moving,) = json.loads(cli.ok("cluster", "reassign", "--status", "--format", "json"))
        assert (moving["adding"], moving["removing"]) == ([dead], [goes])
        assert "cancelled" in cli.ok("cluster", "reassign", "--cancel", "--execute")
        assert cli.ok("cluster", "reassign", "--status") == "nothing is moving\n"
