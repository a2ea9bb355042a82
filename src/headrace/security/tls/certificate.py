"""What a broker needs to know of a certificate: its subject, its other names, and when it ends."""

import datetime as dt
from typing import Final, NamedTuple

from headrace.security.tls.der import (
    OCTET_STRING,
    SEQUENCE,
    Element,
    InvalidDer,
    children,
    object_identifier,
    read_element,
)
from headrace.security.tls.distinguished_name import distinguished_name

_VERSION: Final = 0xA0
_EXTENSIONS: Final = 0xA3
_UTC_TIME: Final = 0x17
_GENERALIZED_TIME: Final = 0x18
_SUBJECT_ALTERNATIVE_NAME: Final = "2.5.29.17"
_FIELDS_AFTER_VERSION: Final = 6  # serial, algorithm, issuer, validity, subject, public key
_FIRST_YEAR_OF_UTC_TIME: Final = 1950


class Certificate(NamedTuple):
    """`alternative_names` are the encoded names of hosts and others, which identify the owner."""

    subject: str
    alternative_names: frozenset[bytes]
    not_after: dt.datetime


def read_certificate(der: bytes) -> Certificate:
    """Reads an X.509 certificate; raises `InvalidDer`."""
    parts = children(read_element(der), SEQUENCE)
    if not parts:
        raise InvalidDer("a certificate is empty")
    fields = children(parts[0], SEQUENCE)
    if fields and fields[0].tag == _VERSION:
        del fields[0]
    if len(fields) < _FIELDS_AFTER_VERSION:
        raise InvalidDer("a certificate has too few fields")
    validity = children(fields[3], SEQUENCE)
    if len(validity) != 2:
        raise InvalidDer("a validity is not two times")
    return Certificate(
        distinguished_name(fields[4]),
        _alternative_names(fields[_FIELDS_AFTER_VERSION:]),
        _time(validity[1]),
    )


def _alternative_names(fields: list[Element]) -> frozenset[bytes]:
    for field in fields:
        if field.tag != _EXTENSIONS:
            continue
        for extension in children(read_element(field.contents), SEQUENCE):
            parts = children(extension, SEQUENCE)
            if len(parts) < 2 or parts[-1].tag != OCTET_STRING:
                raise InvalidDer("an extension is not an identifier and a value")
            if object_identifier(parts[0]) == _SUBJECT_ALTERNATIVE_NAME:
                names = children(read_element(parts[-1].contents), SEQUENCE)
                return frozenset(name.encoded for name in names)
    return frozenset()


def _time(element: Element) -> dt.datetime:
    try:
        text = element.contents.decode("ascii")
        if element.tag == _UTC_TIME:
            year = int(text[:2])
            century = 1900 if year + 1900 >= _FIRST_YEAR_OF_UTC_TIME else 2000
            text = f"{century + year}{text[2:]}"
        elif element.tag != _GENERALIZED_TIME:
            raise InvalidDer("a time has an unknown type")
        return dt.datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=dt.UTC)
    except ValueError as error:
        raise InvalidDer("a time is malformed") from error
