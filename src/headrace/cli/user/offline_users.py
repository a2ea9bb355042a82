"""Users in the metadata of a single node that does not run.

The first user of a broker whose listeners all need a login cannot be created through the broker.
"""

from pathlib import Path

from headrace.broker.membership.standalone import METADATA_FILE
from headrace.cli.error_messages import usage
from headrace.cli.exit_codes import CommandFailed
from headrace.client.admin.users import NewCredential
from headrace.cluster.metadata_records import ScramCredentialChanged
from headrace.cluster.metadata_store import StoreError, StoreInUse
from headrace.cluster.stores.sqlite import SqliteStore
from headrace.security.sasl.scram_credential import credential_of


def create_offline(data: Path, new: NewCredential) -> None:
    """Writes the credential into the metadata file of a data directory; raises
    `CommandFailed`."""
    if data.exists() and not data.is_dir():
        raise usage(f"--data {data}: not a directory")
    credential = credential_of(new.mechanism, new.salt, new.salted_password, new.iterations)
    try:
        data.mkdir(parents=True, exist_ok=True)
        store = SqliteStore(data / METADATA_FILE)
        try:
            image = store.load()
            if (new.user, new.mechanism) in image.scram_credentials:
                raise CommandFailed(f"the user {new.user!r} exists already")
            record = ScramCredentialChanged(new.user, new.mechanism, credential)
            store.commit([record], expected_version=image.version)
        finally:
            store.close()
    except StoreInUse as error:
        raise CommandFailed(
            f"a broker uses {data}; create the user without --data, or stop the broker"
        ) from error
    except StoreError as error:
        raise CommandFailed(str(error)) from error
