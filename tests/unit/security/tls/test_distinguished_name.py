"""Names of certificates have the same text as in Kafka: ACLs name principals by it.

The expected texts are those of Java 17's X500Principal.getName().
"""

import pytest
from cryptography import x509
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID, ObjectIdentifier

from headrace.security.tls.der import InvalidDer, read_element
from headrace.security.tls.distinguished_name import distinguished_name

CN, ORGANIZATION = NameOID.COMMON_NAME, NameOID.ORGANIZATION_NAME
BMP = _ASN1Type.BMPString


def text_of(*relative_names: list[x509.NameAttribute]) -> str:
    name = x509.Name([x509.RelativeDistinguishedName(each) for each in relative_names])
    return distinguished_name(read_element(name.public_bytes()))


def common_name(value: str) -> str:
    return text_of([x509.NameAttribute(CN, value)])


def test_the_last_attribute_comes_first_without_blanks() -> None:
    attributes = [
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.STATE_OR_PROVINCE_NAME, "Berlin"),
        x509.NameAttribute(ORGANIZATION, "Example Ltd"),
        x509.NameAttribute(NameOID.DOMAIN_COMPONENT, "example"),
        x509.NameAttribute(NameOID.USER_ID, "a1"),
        x509.NameAttribute(CN, "alice"),
    ]
    expected = "CN=alice,UID=a1,DC=example,O=Example Ltd,ST=Berlin,C=DE"
    assert text_of(*([each] for each in attributes)) == expected


def test_attributes_of_one_relative_name_are_joined_with_a_plus() -> None:
    both = [x509.NameAttribute(CN, "a"), x509.NameAttribute(ORGANIZATION, "b")]
    assert text_of(both, [x509.NameAttribute(NameOID.COUNTRY_NAME, "DE")]) == "C=DE,CN=a+O=b"


def test_an_attribute_without_a_keyword_is_its_identifier_and_its_encoding() -> None:
    email = [x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b")]
    own = [x509.NameAttribute(ObjectIdentifier("2.999.1"), "*")]
    assert text_of(email, own) == "2.999.1=#0c012a,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a,b+c", r"CN=a\,b\+c"),
        ('"<a>";\\', r"CN=\"\<a\>\"\;\\"),
        ("#a=b", r"CN=\#a\=b"),
        (" a ", r"CN=\ a\ "),
        ("  ", r"CN=\ \ "),
        ("a\0b", r"CN=a\00b"),
        ("äß€🎉", "CN=äß€🎉"),
    ],
)
def test_special_characters_are_escaped(value: str, text: str) -> None:
    assert common_name(value) == text


def test_a_string_of_another_type_is_decoded() -> None:
    assert text_of([x509.NameAttribute(CN, "ä:", BMP, _validate=False)]) == "CN=ä:"


def test_a_value_that_java_does_not_decode_is_its_encoding() -> None:
    visible = x509.NameAttribute(CN, "a", _ASN1Type.VisibleString, _validate=False)
    assert text_of([visible]) == "CN=#1a0161"


@pytest.mark.parametrize(
    "encoded",
    ["3100", "30023100", "3004310230", "300631043002", "3080", "3081053100310031"],
)
def test_a_malformed_name_is_refused(encoded: str) -> None:
    with pytest.raises(InvalidDer):
        distinguished_name(read_element(bytes.fromhex(encoded)))
