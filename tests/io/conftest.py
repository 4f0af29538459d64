"""A server that answers as S3 does, and folders in object stores."""

from collections.abc import Iterator
from uuid import uuid4

import fsspec
import pytest


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The URL of a bucket on a server of this machine."""
    pytest.importorskip("s3fs")
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        patch.setenv("AWS_ACCESS_KEY_ID", "testing")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        fsspec.filesystem("s3").mkdir("bucket")
        yield "s3://bucket"
    server.stop()


@pytest.fixture(params=["memory", "s3"])
def folder(request: pytest.FixtureRequest) -> str:
    """The URL of a folder where nothing is."""
    root = "memory:/" if request.param == "memory" else request.getfixturevalue("bucket")
    return f"{root}/{uuid4().hex}"
