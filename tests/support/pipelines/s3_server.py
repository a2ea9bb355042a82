"""A real S3 server on loopback: the Versity gateway, which stores its objects in a folder."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pytest
from pyarrow import fs

from support.brokers.processes import LOOPBACK, free_port
from support.pipelines.every_sink import Store
from support.waiting import wait_for

PROGRAM: Final = "HEADRACE_S3_SERVER"
ACCESS_KEY: Final = "tester"
SECRET_KEY: Final = "s3-secret-of-the-tests"
SECRET_VARIABLE: Final = "HEADRACE_TEST_S3_SECRET"
REGION: Final = "us-east-1"
START_DEADLINE_S: Final = 60.0


def program() -> str:
    """The path of the server program; skips the test if it was not built."""
    found = os.environ.get(PROGRAM)
    if not found:
        pytest.skip(f"{PROGRAM} names no S3 server: script/conformance builds one where Go is")
    return found


class S3Server:
    """One server with its objects in a folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://{LOOPBACK}:{free_port()}"

    def __enter__(self) -> Self:
        objects, beside = self._home / "objects", self._home / "metadata"
        for folder in (objects, beside):
            folder.mkdir(parents=True)
        command = [program(), "--quiet", "--region", REGION]
        command += ["--port", self.endpoint.removeprefix("http://")]
        with (self._home / "s3.log").open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "posix", "--sidecar", str(beside), str(objects)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
            )
        try:
            wait_for(self._answers, "the S3 server answers", deadline_s=START_DEADLINE_S)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._home / "s3.log").read_text()
        try:
            self.files().get_file_info(fs.FileSelector(""))
        except OSError:
            return False
        return True

    def files(self) -> fs.S3FileSystem:
        return fs.S3FileSystem(
            access_key=ACCESS_KEY,
            secret_key=SECRET_KEY,
            region=REGION,
            endpoint_override=self.endpoint.removeprefix("http://"),
            scheme="http",
            allow_bucket_creation=True,
        )

    def make_bucket(self, name: str) -> None:
        self.files().create_dir(name)

    def options(self) -> dict[str, str]:
        """The options for a spec: the secret is the name of an environment variable."""
        return {
            "endpoint": self.endpoint,
            "region": REGION,
            "access_key_id": ACCESS_KEY,
            "secret_access_key": f"${{{SECRET_VARIABLE}}}",
            "path_style": "true",
            "allow_http": "true",
        }

    def store(self, bucket: str, catalog: Path) -> Store:
        """A new bucket for tables; `catalog` is the file of the Iceberg catalog."""
        self.make_bucket(bucket)
        return Store(
            f"s3://{bucket}/lake",
            self.options(),
            delta={
                "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_REGION": REGION,
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "AWS_ALLOW_HTTP": "true",
            },
            iceberg={
                "type": "sql",
                "uri": f"sqlite:///{catalog}",
                "s3.endpoint": self.endpoint,
                "s3.region": REGION,
                "s3.access-key-id": ACCESS_KEY,
                "s3.secret-access-key": SECRET_KEY,
            },
        )
