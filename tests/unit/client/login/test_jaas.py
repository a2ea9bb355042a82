"""`sasl.jaas.config` of Java clients, as this client reads it."""

import pytest

from headrace.client.login.jaas import credentials_of

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (
            f'{PLAIN} username="me" password="a \\"b\\\\";',
            {"sasl.username": "me", "sasl.password": 'a "b\\'},
        ),
        (
            'ScramLoginModule required username="id" password="hmac" tokenauth="true";',
            {"sasl.username": "id", "sasl.password": "hmac", "sasl.tokenauth": "true"},
        ),
        (
            "OAuthBearerLoginModule required clientId=app clientSecret='x' scope=\"read\";",
            {
                "sasl.oauthbearer.client.id": "app",
                "sasl.oauthbearer.client.secret": "'x'",
                "sasl.oauthbearer.scope": "read",
            },
        ),
        ("", {}),
    ],
)
def test_login_settings_get_the_names_of_other_clients(entry: str, found: dict[str, str]) -> None:
    assert credentials_of(entry) == found
