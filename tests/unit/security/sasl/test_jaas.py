"""JAAS texts as Kafka's users write them, and errors that show no secret."""

import pytest

from headrace.security.sasl.jaas import InvalidJaas, parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_options_users_and_the_mechanism_are_read() -> None:
    login = parse_jaas(
        f'{PLAIN} required username="admin" password="p" user_alice="a b" user_bob=\'"q"\';'
    )
    assert login.mechanism == "PLAIN"
    assert (login.username, login.password) == ("admin", "p")
    assert login.users() == {"alice": "a b", "bob": '"q"'}


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r'"a\"b"', 'a"b'),
        (r'"a\\b"', r"a\b"),
        (r'"tab\t"', "tab\t"),
        (r'"\101"', "A"),
        ('"semi;colon = x"', "semi;colon = x"),
        ('"//no comment"', "//no comment"),
        ("plain-word_1", "plain-word_1"),
        ('"pässwörd"', "pässwörd"),
        ('""', ""),
    ],
)
def test_values_are_quoted_as_in_java(written: str, password: str) -> None:
    assert parse_jaas(f"{SCRAM} required password={written};").password == password


def test_lines_and_comments_separate_words() -> None:
    text = f"""
        {SCRAM} Required /* a comment; */
          username="alice"  // another "comment"
          password="secret"
        ;
    """
    assert parse_jaas(text).options == {"username": "alice", "password": "secret"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        f"{PLAIN} required",
        f'{PLAIN} user_alice="hunter2";',
        f"{PLAIN} required password=;",
        f'{PLAIN} required password "hunter2";',
        f'{PLAIN} required ="hunter2";',
        f'{PLAIN} required password="hunter2',
        f'{PLAIN} required password="hunter2"',
        f'{PLAIN} required password="hunter2" password="hunter2";',
        f'{PLAIN} required password="hunter2"; {PLAIN} required;',
        f"{PLAIN} required password=hunter2/x;",
        "hunter2 required x=y;",
        '"hunter2" required;',
    ],
)
def test_an_invalid_text_is_refused_without_its_values(text: str) -> None:
    with pytest.raises(InvalidJaas) as refused:
        parse_jaas(text)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "module",
    [
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
        "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
        "com.sun.security.auth.module.Krb5LoginModule",
    ],
)
def test_only_kafkas_login_modules_are_accepted(module: str) -> None:
    """CVE-2023-25194, CVE-2025-27818, CVE-2025-27819: a login module that does something else."""
    with pytest.raises(InvalidJaas, match=module):
        parse_jaas(f'{module} required user.provider.url="ldap://attacker";')


def test_a_login_does_not_show_its_options() -> None:
    assert "hunter2" not in repr(parse_jaas(f'{PLAIN} required password="hunter2";'))
