"""Brokers that reach each other through TLS and SASL."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.broker.runtime.errors import StartupError
from headrace.protocol.errors import ErrorCode
from support.brokers.members import Members, until
from support.brokers.orders_topic import create, produce
from support.security.certificates import CertificateAuthority

PREFIX = "listener.name.inside"
LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="secret" user_broker="secret";'
)


def inside(protocol: str, authority: CertificateAuthority, **more: str) -> Mapping[str, str]:
    """Settings of brokers that use the listener INSIDE among themselves."""
    broker = authority.issue("broker")
    return {
        "listeners": "PLAINTEXT://127.0.0.1:0,INSIDE://127.0.0.1:0",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,INSIDE:{protocol}",
        "inter.broker.listener.name": "INSIDE",
        f"{PREFIX}.ssl.keystore.location": str(broker.keystore_file),
        f"{PREFIX}.ssl.truststore.location": str(authority.ca_file),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ("SSL", {f"{PREFIX}.ssl.client.auth": "required"}),
        (
            "SASL_SSL",
            {
                "sasl.enabled.mechanisms": "PLAIN",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                f"{PREFIX}.plain.sasl.jaas.config": LOGIN,
            },
        ),
    ],
)
def test_a_cluster_replicates_through_its_inter_broker_listener(
    tmp_path: Path, authority: CertificateAuthority, protocol: str, more: Mapping[str, str]
) -> None:
    async def scenario() -> None:
        settings = {**inside(protocol, authority), **more}
        async with Members(tmp_path, settings=settings) as members:
            await create(members)
            leader = members.partition(1).leader
            assert (await produce(members, leader, b"first")).error_code == ErrorCode.NONE
            for broker in members.brokers.values():
                protocols = {each.session.security_protocol for each in broker.server._connections}
                assert protocols <= {"PLAINTEXT", protocol}
            members.kill(leader)
            await until(lambda: members.controller, "there is a controller")

    asyncio.run(scenario())


def test_a_broker_does_not_join_through_a_broker_whose_certificate_names_another_host(
    tmp_path: Path, authority: CertificateAuthority
) -> None:
    async def scenario() -> None:
        good = inside("SSL", authority)
        elsewhere = authority.issue("elsewhere", sans=["elsewhere.example"])
        bad = {**good, f"{PREFIX}.ssl.keystore.location": str(elsewhere.keystore_file)}
        async with Members(tmp_path, 1, bad) as members:
            quick = {**good, "initial.broker.registration.timeout.ms": "1500"}
            with pytest.raises(StartupError, match="no controller accepted"):
                await members.start(2, quick)

    asyncio.run(scenario())
