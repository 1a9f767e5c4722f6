"""A model on a server, for as long as a job needs it: patiently, and never another model."""

from collections.abc import Iterator
from contextlib import contextmanager

from foretell.client import Client, Credentials, ModelInfo
from foretell.data.errors import ForetellError

# A server that is started anew is back within minutes; a job of hours can wait, nobody sits there.
PATIENCE_S = 600.0
IN_FLIGHT = 4  # requests


class JobServer:
    """One version of one model, on a server that may be full, or away for a while.

    Attributes:
        client: To ask; several threads may.
        info: What the server told of the model when the job began.
    """

    def __init__(self, client: Client, name: str | None) -> None:
        self.client = client
        self.info: ModelInfo = client.describe(name)

    @property
    def where(self) -> str:
        """What computes, for people to read."""
        info = self.info
        return f"{info.name} version {info.version} at {self.client.target} ({info.provider})"

    def check_model(self) -> None:
        """Wait until the server is there, and see that it has the same model still.

        Raises:
            ForetellError: It has another one.
            RemoteError: It isn't there for longer than the job is patient, or says no.
            ValueError: The job was stopped meanwhile.
        """
        was, now = self.info, self.client.describe(self.info.name, retry=True)
        if (now.version, now.manifest) != (was.version, was.manifest):
            other = "another model as version" if now.version == was.version else "version"
            raise ForetellError(
                f"server {self.client.target} has {other} {now.version} of {was.name} now, and the "
                f"job was begun with version {was.version}; half of the output would be another "
                "model's. Have the server serve that one again, or start anew (overwrite)."
            )

    def stop(self) -> None:
        """End all calls, also those that wait; nothing can be asked any more."""
        self.client.close()


@contextmanager
def job_server(
    target: str, *, model: str | None, in_flight: int, patience_s: float = PATIENCE_S
) -> Iterator[JobServer]:
    """Connect to a server, with the credentials of the environment.

    Args:
        target: HOST:PORT of the server.
        model: Its name; None where the server serves one.
        in_flight: Requests of one call that are on their way at a time.
        patience_s: Seconds that a request may take, those included in which the server is full or
            away. At the beginning nothing is waited for: the address may be wrong.

    Raises:
        OptionError: The credentials contradict, or a token would go in clear to another machine.
        RemoteError: It can't be reached, or has no such model.
    """
    with Client(
        target,
        credentials=Credentials.from_environment(),
        timeout_s=patience_s,
        retry_s=patience_s,
        in_flight=in_flight,
    ) as client:
        yield JobServer(client, model)
