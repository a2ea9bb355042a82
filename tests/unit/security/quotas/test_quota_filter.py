"""DescribeClientQuotas lists the entities that every component of its filter matches."""

import pytest

from headrace.security.quotas.client_quota import CLIENT_ID, IP, USER, QuotaEntity
from headrace.security.quotas.quota_filter import (
    Component,
    InvalidFilter,
    MatchType,
    QuotaFilter,
    UnsupportedEntityType,
)

EXACT, DEFAULT, SPECIFIED = MatchType.EXACT, MatchType.DEFAULT, MatchType.SPECIFIED
ALICE = QuotaEntity(((USER, "alice"),))
ANY_USER = QuotaEntity(((USER, None),))
ALICE_APP = QuotaEntity(((CLIENT_ID, "app"), (USER, "alice")))
APP = QuotaEntity(((CLIENT_ID, "app"),))
ADDRESS = QuotaEntity(((IP, "10.0.0.1"),))
ALL = (ALICE, ANY_USER, ALICE_APP, APP, ADDRESS)


@pytest.mark.parametrize(
    ("components", "strict", "expected"),
    [
        ([], False, ALL),
        ([], True, ()),
        ([Component(USER, EXACT, "alice")], False, (ALICE, ALICE_APP)),
        ([Component(USER, EXACT, "alice")], True, (ALICE,)),
        ([Component(USER, DEFAULT)], False, (ANY_USER,)),
        ([Component(USER, SPECIFIED)], False, (ALICE, ANY_USER, ALICE_APP)),
        ([Component(USER, SPECIFIED)], True, (ALICE, ANY_USER)),
        ([Component(USER, SPECIFIED), Component(CLIENT_ID, EXACT, "app")], True, (ALICE_APP,)),
        ([Component(IP, SPECIFIED)], False, (ADDRESS,)),
        ([Component(USER, EXACT, "bob")], False, ()),
    ],
)
def test_a_filter_lists_the_matching_entities(
    components: list[Component], strict: bool, expected: tuple[QuotaEntity, ...]
) -> None:
    wanted = QuotaFilter(components, strict=strict)
    quotas = {entity: {"any": 1.0} for entity in ALL}
    assert tuple(entity for entity, _ in wanted.matching(quotas)) == expected


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([Component("", EXACT, "a")], "empty entity type"),
        ([Component(USER, EXACT, "a"), Component(USER, DEFAULT)], "more than once"),
        ([Component(USER, EXACT)], "MATCH_TYPE_EXACT, but set match string to null"),
        ([Component(USER, DEFAULT, "a")], "MATCH_TYPE_DEFAULT, but also specified"),
        ([Component(USER, SPECIFIED, "a")], "MATCH_TYPE_SPECIFIED, but also specified"),
        ([Component(USER, 3)], "Unknown match type 3"),
        ([Component(IP, SPECIFIED), Component(USER, SPECIFIED)], "should not be used with"),
    ],
)
def test_an_invalid_filter_is_refused(components: list[Component], message: str) -> None:
    with pytest.raises(InvalidFilter, match=message):
        QuotaFilter(components, strict=False)


def test_an_unknown_entity_type_is_not_supported() -> None:
    with pytest.raises(UnsupportedEntityType, match="planet"):
        QuotaFilter([Component("planet", EXACT, "mars")], strict=False)
