"""The security of a pipeline's clients, complete in itself: workers need no files.

Spark sends the settings of readers and writers to its workers, which may be other machines. So the
driver reads certificates and keys, and the settings contain them as PEM text. The token of a file
is read where it is used: it changes too often.
"""

from collections.abc import Mapping
from dataclasses import replace

from headrace.client.errors import BadSecurityFiles
from headrace.client.login.security import InvalidSecurity, Security, security_of


def client_security(kafka: Mapping[str, str]) -> Security:
    """The security that these settings describe; raises `InvalidSecurity`."""
    security = security_of(kafka)
    if security.tls is None:
        return security
    from headrace.client.login.tls_context import inlined

    try:
        return replace(security, tls=inlined(security.tls))
    except BadSecurityFiles as error:
        raise InvalidSecurity(str(error)) from None
