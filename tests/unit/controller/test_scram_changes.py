"""Changes and descriptions of SCRAM credentials, with Kafka's codes."""

import hashlib
import hmac

import pytest

from headrace.cluster.image import MetadataImage
from headrace.controller.scram_changes import (
    MAX_SALT_BYTES,
    ScramDeletion,
    ScramUpsertion,
    alter_credentials,
    describe_credentials,
)
from headrace.protocol.errors import ErrorCode
from headrace.security.sasl.scram_credential import ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
Change = ScramDeletion | ScramUpsertion


def upsertion(
    user: str = "alice", mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt"
) -> ScramUpsertion:
    return ScramUpsertion(user, mechanism, iterations, salt, b"salted password")


def altered(image: MetadataImage, *changes: Change) -> tuple[MetadataImage, dict[str, ErrorCode]]:
    result = alter_credentials(
        image,
        [each for each in changes if isinstance(each, ScramDeletion)],
        [each for each in changes if isinstance(each, ScramUpsertion)],
    )
    return image.apply(result.records), {each.user: each.error.code for each in result.results}


def test_a_credential_is_stored_as_its_keys() -> None:
    image, codes = altered(MetadataImage(), upsertion(mechanism=SHA_512, iterations=8192))
    assert codes == {"alice": ErrorCode.NONE}
    stored = image.scram_credentials["alice", SHA_512]
    client_key = hmac.digest(b"salted password", b"Client Key", "sha512")
    assert stored.stored_key == hashlib.sha512(client_key).digest()
    assert stored.server_key == hmac.digest(b"salted password", b"Server Key", "sha512")
    assert (stored.salt, stored.iterations) == (b"salt", 8192)


def test_a_credential_is_replaced_and_deleted() -> None:
    image, _ = altered(MetadataImage(), upsertion(), upsertion("bob"))
    image, codes = altered(image, upsertion(salt=b"other"), ScramDeletion("bob", SHA_256))
    assert set(codes.values()) == {ErrorCode.NONE}
    assert list(image.scram_credentials) == [("alice", SHA_256)]
    assert image.scram_credentials["alice", SHA_256].salt == b"other"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramDeletion("", SHA_256), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=-1), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (ScramDeletion("alice", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salt=b"x" * (MAX_SALT_BYTES + 1)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (ScramDeletion("alice", SHA_512), ErrorCode.RESOURCE_NOT_FOUND),
    ],
    ids=repr,
)
def test_invalid_changes_are_refused(change: Change, code: ErrorCode) -> None:
    before, _ = altered(MetadataImage(), upsertion())
    image, codes = altered(before, change, upsertion("bob"))
    assert codes == {change.user: code, "bob": ErrorCode.NONE}
    assert image.scram_credentials.keys() == {("alice", SHA_256), ("bob", SHA_256)}


@pytest.mark.parametrize("iterations", [4096, 16384])
def test_the_limits_of_iterations_are_accepted(iterations: int) -> None:
    assert altered(MetadataImage(), upsertion(iterations=iterations))[1] == {"alice": 0}


@pytest.mark.parametrize(
    "changes",
    [
        (upsertion(), upsertion()),
        (upsertion(), upsertion(mechanism=SHA_512)),
        (upsertion(), ScramDeletion("alice", SHA_256)),
        (ScramDeletion("alice", SHA_256), ScramDeletion("alice", SHA_512)),
        (upsertion(), upsertion(), upsertion()),
    ],
)
def test_a_user_is_changed_once_in_a_request(changes: tuple[Change, ...]) -> None:
    image, codes = altered(MetadataImage(), *changes)
    assert codes == {"alice": ErrorCode.DUPLICATE_RESOURCE}
    assert not image.scram_credentials


def test_all_users_are_described_without_secrets() -> None:
    image, _ = altered(MetadataImage(), upsertion("bob", iterations=8192), upsertion())
    image, _ = altered(image, upsertion(mechanism=SHA_512))
    described = describe_credentials(image, [])
    assert [(each.user, list(each.credentials)) for each in described] == [
        ("alice", [(SHA_256, 4096), (SHA_512, 4096)]),
        ("bob", [(SHA_256, 8192)]),
    ]


def test_described_users_exist_and_are_named_once() -> None:
    image, _ = altered(MetadataImage(), upsertion())
    described = describe_credentials(image, ["alice", "bob", "eve", "eve"])
    assert {each.user: each.error.code for each in described} == {
        "alice": ErrorCode.NONE,
        "bob": ErrorCode.RESOURCE_NOT_FOUND,
        "eve": ErrorCode.DUPLICATE_RESOURCE,
    }


def test_a_change_does_not_show_the_salted_password() -> None:
    assert "salted password" not in repr(upsertion())
