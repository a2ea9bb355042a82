"""Names of principals from names of certificates, by rules."""

import pytest

from headrace.security.tls.principal_mapping import InvalidRule, NoMatchingRule, PrincipalMapping

DUKE = "CN=Duke,OU=ServiceUsers,O=Org,C=US"
RULES = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/, "
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L, "
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U, "
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("name", "principal"),
    [
        (DUKE, "Duke"),
        ("CN=duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("OU=JavaSoft,O=Sun,cn=duke", "DUKE"),
        ("OU=JavaSoft,O=Sun", "OU=JavaSoft,O=Sun"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_applies(name: str, principal: str) -> None:
    assert PrincipalMapping(RULES).name_of(name) == principal


@pytest.mark.parametrize("rules", ["", "DEFAULT", "  DEFAULT  "])
def test_by_default_the_name_is_the_principal(rules: str) -> None:
    assert PrincipalMapping(rules).name_of(DUKE) == DUKE


def test_a_name_that_no_rule_matches_is_refused() -> None:
    with pytest.raises(NoMatchingRule, match="CN=x"):
        PrincipalMapping("RULE:CN=Duke/$0/").name_of("CN=x")


def test_a_rule_must_match_the_whole_name() -> None:
    with pytest.raises(NoMatchingRule):
        PrincipalMapping("RULE:CN=(Du)/$1/").name_of("CN=Duke")


@pytest.mark.parametrize(
    ("replacement", "principal"),
    [("$0", "CN=a"), ("$1$1", "aa"), ("$12", "a2"), ("$7", "$7"), (r"\$1", "$1"), (r"\/", "/")],
)
def test_replacements_are_javas(replacement: str, principal: str) -> None:
    assert PrincipalMapping(f"RULE:CN=(.*)/{replacement}/").name_of("CN=a") == principal


@pytest.mark.parametrize(
    "rules",
    ["CN=x", "RULE:a", "RULE:a/b", "RULE:a/b/X", "RULE:(/b/", "DEFAULT;DEFAULT"],
)
def test_an_invalid_rule_is_refused(rules: str) -> None:
    with pytest.raises(InvalidRule):
        PrincipalMapping(rules)


def test_a_hostile_name_is_matched_in_linear_time() -> None:
    mapping = PrincipalMapping("RULE:CN=(a*)*b/$1/,DEFAULT")
    name = "CN=" + "a" * 50_000
    assert mapping.name_of(name) == name
