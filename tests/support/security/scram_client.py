"""The client's side of SCRAM for tests, which may send any message it likes."""

import base64
import hashlib
import hmac

from headrace.security.sasl.scram_credential import ScramCredential, ScramMechanism, credential_of

SHA_256 = ScramMechanism.SCRAM_SHA_256


def scram_credential(
    password: str,
    mechanism: ScramMechanism = SHA_256,
    *,
    salt: bytes = b"salt of a test",
    iterations: int = 4096,
) -> ScramCredential:
    """What a broker stores of the password."""
    salted = hashlib.pbkdf2_hmac(mechanism.algorithm, password.encode(), salt, iterations)
    return credential_of(mechanism, salt, salted, iterations)


class ScramClient:
    """One login. `first` is sent first, `final` answers the challenge."""

    def __init__(
        self,
        user: str,
        password: str,
        mechanism: ScramMechanism = SHA_256,
        *,
        nonce: str = "client-nonce",
        header: str = "n,,",
        extensions: str = "",
    ) -> None:
        self._password = password
        self._algorithm = mechanism.algorithm
        self._header = header
        self._bare = f"n={user},r={nonce}{extensions}"
        self._signature = b""

    @property
    def first(self) -> bytes:
        return (self._header + self._bare).encode()

    def final(
        self, challenge: bytes, *, nonce: str | None = None, binding: str | None = None
    ) -> bytes:
        """The final message; a test may give another nonce or channel binding."""
        fields = dict(part.split("=", 1) for part in challenge.decode().split(","))
        shown = fields["r"] if nonce is None else nonce
        bound = base64.b64encode((self._header if binding is None else binding).encode()).decode()
        without_proof = f"c={bound},r={shown}"
        signed = f"{self._bare},{challenge.decode()},{without_proof}".encode()
        salt, iterations = base64.b64decode(fields["s"]), int(fields["i"])
        algorithm = self._algorithm
        salted = hashlib.pbkdf2_hmac(algorithm, self._password.encode(), salt, iterations)
        client_key = hmac.digest(salted, b"Client Key", algorithm)
        stored_key = hashlib.new(algorithm, client_key).digest()
        signature = hmac.digest(stored_key, signed, algorithm)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        server_key = hmac.digest(salted, b"Server Key", algorithm)
        self._signature = hmac.digest(server_key, signed, algorithm)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def trusts(self, answer: bytes) -> bool:
        """Whether the server has proved that it knows the password."""
        return answer == b"v=" + base64.b64encode(self._signature)
