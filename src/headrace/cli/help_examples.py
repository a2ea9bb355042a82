"""Examples at the end of each command's --help. A test parses every one."""

from collections.abc import Mapping
from typing import Final

EXAMPLES: Final[Mapping[str, tuple[str, ...]]] = {
    "": (
        "headrace up",
        "echo hello | headrace produce greetings",
        "headrace consume greetings -e",
        "headrace topic create --help",
    ),
    "up": ("headrace up", "headrace up --port 9192 --data ./data", "headrace up --ephemeral"),
    "broker start": (
        "headrace broker start --config server.properties",
        "headrace broker start --config server.properties --set node.id=2",
    ),
    "demo": ("headrace demo", "headrace demo --orders 1000 --exit"),
    "version": ("headrace version",),
    "produce": (
        "echo hello | headrace produce orders",
        "headrace produce orders -k k1 -v one -v two -H source=test",
        "headrace produce orders --input json records.json",
        "headrace consume orders -e -f json | headrace produce copy --input json",
        "headrace produce orders -k k1 --tombstone",
    ),
    "consume": (
        "headrace consume orders",
        "headrace consume orders -o -10 -e",
        r"headrace consume orders -f '%p %o %k=%v\n'",
        "headrace consume orders -o s@-2h -e -f json",
        "headrace consume orders -g billing --exec ./bill.sh --dead-letter failed",
    ),
    "kafka-topics": (
        "headrace kafka-topics --list",
        "headrace kafka-topics --create --topic orders --partitions 3",
    ),
    "user create": (
        "headrace user create alice --generate",
        "headrace user create alice --mechanism SCRAM-SHA-256 --password-file alice.txt",
        "headrace user create admin --data ./data",
    ),
    "user list": ("headrace user list",),
    "user passwd": ("headrace user passwd alice",),
    "user delete": ("headrace user delete alice --execute",),
    "client-metrics create": (
        "headrace client-metrics create all --metrics '*' --interval 1m",
        "headrace client-metrics create c --metrics '*' --match client_id=app-.*",
    ),
    "client-metrics alter": ("headrace client-metrics alter all --interval 5m",),
    "client-metrics list": ("headrace client-metrics list",),
    "client-metrics describe": ("headrace client-metrics describe all",),
    "client-metrics delete": ("headrace client-metrics delete all --execute",),
    "topic create": (
        "headrace topic create orders -p 6 -r 3",
        "headrace topic create orders -c retention.ms=86400000 --if-not-exists",
    ),
    "topic list": ("headrace topic list", "headrace topic list 'orders*'"),
    "topic describe": ("headrace topic describe orders", "headrace topic describe 'orders*' --all"),
    "topic alter": (
        "headrace topic alter orders --set retention.ms=86400000",
        "headrace topic alter orders --unset retention.ms",
    ),
    "topic add-partitions": ("headrace topic add-partitions orders --total 12",),
    "topic delete": (
        "headrace topic delete orders",
        "headrace topic delete 'test-*' --execute",
    ),
    "topic trim": (
        "headrace topic trim orders --before s@-7d",
        "headrace topic trim orders --before -1000 -p 0 --execute",
    ),
    "group list": ("headrace group list", "headrace group list --state Stable"),
    "group describe": ("headrace group describe billing",),
    "group seek": (
        "headrace group seek billing --to beginning",
        "headrace group seek billing --to s@2026-01-31T12:00Z --execute",
        "headrace group seek billing --shift -10 -t orders:0 --execute",
    ),
    "group delete": (
        "headrace group delete billing --execute",
        "headrace group delete billing -t orders --execute",
    ),
    "share list": ("headrace share list",),
    "share describe": ("headrace share describe workers",),
    "share seek": ("headrace share seek workers --to beginning -t jobs --execute",),
    "share delete": ("headrace share delete workers --execute",),
    "txn list": ("headrace txn list --state Ongoing --longer-than 5m",),
    "txn describe": ("headrace txn describe doubler-1",),
    "txn abort": (
        "headrace txn abort doubler-1 --execute",
        "headrace txn abort -t orders -p 0 -o 1234 --execute",
    ),
    "txn find-hanging": ("headrace txn find-hanging orders --older-than 1h",),
    "config get": (
        "headrace config get topic orders --changed",
        "headrace config get broker 1 num.partitions",
    ),
    "config set": (
        "headrace config set topic orders retention.ms=86400000",
        "headrace config set broker default -u log.retention.ms",
        "headrace config set broker-logger 1 headrace.broker=DEBUG",
    ),
    "acl create": (
        "headrace acl create --allow-principal User:alice --operation read -t orders",
        "headrace acl create --allow-principal User:app --producer -t app- --prefixed",
        "headrace acl create --allow-principal User:bill --consumer -t orders -g bill",
        "headrace acl create --deny-principal User:bob --operation all --topic '*'",
    ),
    "acl list": (
        "headrace acl list",
        "headrace acl list --principal User:alice",
        "headrace acl list --topic orders --pattern match",
    ),
    "acl delete": (
        "headrace acl delete --principal User:bob",
        "headrace acl delete --topic orders --operation read --execute",
    ),
    "acl check": (
        "headrace acl check User:alice write topic:orders",
        "headrace acl check User:alice describe cluster --host 10.0.0.7",
    ),
    "quota set": (
        "headrace quota set --user alice --producer-byte-rate 1MB",
        "headrace quota set --user alice --client-id etl --request-percentage 20",
        "headrace quota set --user-default --controller-mutation-rate 10",
        "headrace quota set --ip 10.0.0.7 --connection-creation-rate 20",
    ),
    "quota list": ("headrace quota list", "headrace quota list --user alice --format json"),
    "quota describe": ("headrace quota describe --user alice --client-id etl",),
    "quota unset": (
        "headrace quota unset --user alice producer-byte-rate",
        "headrace quota unset --user-default --execute",
    ),
    "cluster status": (
        "headrace cluster status",
        "headrace cluster status --format json",
        "headrace cluster status --watch --interval 5",
    ),
    "cluster brokers": ("headrace cluster brokers",),
    "cluster controller": ("headrace cluster controller",),
    "cluster leaders": ("headrace cluster leaders orders",),
    "cluster under-replicated": ("headrace cluster under-replicated --wait 60",),
    "cluster elect": (
        "headrace cluster elect",
        "headrace cluster elect orders -p 0 --unclean --execute",
    ),
    "cluster unregister": (
        "headrace cluster unregister 4 --execute",
        "headrace cluster unregister 4 --force --execute",
    ),
    "cluster reassign": (
        "headrace cluster reassign --to 1,2,3,4 --save plan.json",
        "headrace cluster reassign --plan plan.json --throttle 50M --execute",
        "headrace cluster reassign --status",
        "headrace cluster reassign --cancel --execute",
    ),
    "cluster up": ("headrace cluster up", "headrace cluster up -n 5 --restart --ephemeral"),
    "cluster shutdown": (
        "headrace cluster shutdown --execute",
        "headrace cluster shutdown --broker 2 --execute",
    ),
    "pipeline init": ("headrace pipeline init orders.yaml --topic orders",),
    "pipeline validate": ("headrace pipeline validate orders.yaml",),
    "pipeline schema": ("headrace pipeline schema > pipeline.schema.json",),
    "pipeline warm-up": ("headrace pipeline warm-up",),
    "pipeline run": (
        "headrace pipeline run orders.yaml",
        "headrace pipeline run orders.yaml --until-caught-up",
    ),
    "pipeline status": ("headrace pipeline status orders.yaml",),
    "pipeline lag": ("headrace pipeline lag orders.yaml",),
    "pipeline history": ("headrace pipeline history orders.yaml -n 50",),
    "pipeline reset": (
        "headrace pipeline reset orders.yaml --to s@-1d",
        "headrace pipeline reset orders.yaml --to beginning --execute",
    ),
    "pipeline backfill": ("headrace pipeline backfill orders.yaml --from s@2026-01-31 --execute",),
    "pipeline compact": ("headrace pipeline compact orders.yaml --vacuum",),
    "dlq list": ("headrace dlq list orders.dlq",),
    "dlq show": ("headrace dlq show orders.dlq --where 'error = NotJson' --limit 3",),
    "dlq replay": (
        "headrace dlq replay orders.dlq --where 'error = NotJson'",
        "headrace dlq replay orders.dlq --python fixes.py:repair --execute",
    ),
    "top": (
        "headrace top",
        "headrace top groups --interval 5",
        "headrace top topics --once --format json",
    ),
    "generate grafana": (
        "headrace generate grafana --output ./dashboards",
        "headrace generate grafana overview > overview.json",
    ),
    "generate prometheus": (
        "headrace generate prometheus --output ./prometheus --target broker-1:9644",
        "headrace generate prometheus alerts --runbooks https://example.org/alerts/",
    ),
    "token create": (
        "headrace token create",
        "headrace token create --renewer User:scheduler --max-lifetime 3d",
        "headrace token create --owner User:alice --format json",
    ),
    "token list": ("headrace token list", "headrace token list --owner User:alice"),
    "token renew": ("headrace token renew 4yp2Qx7kSn-ZQp5iJkR3mA --for 12h",),
    "token expire": ("headrace token expire 4yp2Qx7kSn-ZQp5iJkR3mA --execute",),
    "cert dev": (
        "headrace cert dev ./certs --host kafka.example.com --client alice",
        "headrace cert dev ./certs --renew",
    ),
    "profile create": (
        "headrace profile create local --from client.properties --default",
        "headrace profile create production -b kafka-1:9093 security.protocol=SSL",
    ),
    "profile list": ("headrace profile list",),
    "profile show": ("headrace --profile production profile show",),
}
