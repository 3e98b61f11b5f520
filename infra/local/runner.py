"""The runner: starts all parts of the service, waits for a signal, and stops them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import resource
import secrets
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import boto3
from botocore.config import Config

from infra import topology
from infra.cli_archive import archive
from infra.local import names, queues, resources, schedule, sqs_endpoint, stream
from infra.local.console import StartError, say, warn
from infra.local.data_dir import DataDir, write_json
from infra.local.lambdas import Lambdas
from infra.local.routes import Routes
from infra.local.server import Gateway
from infra.local.settings import Settings
from infra.local.sqs import Engine
from shared.aws import client as aws_client
from shared.aws import credentials
from shared.core.api_description import API_DESCRIPTION, CLI_ARCHIVE

_ROOT = Path(__file__).parents[2]
_LOG_SIZE = 20 * 1024 * 1024
_OPEN_FILES = 4096
_DISK_EVERY_S = 2.0
"""Seconds between two looks at the free space of the disk."""
# Stopping takes at most five seconds: this, and the time that the server waits for requests in progress.
_BACKEND_PATIENCE_S = 2.5


def main(settings: Settings) -> int:
    """Run until a signal arrives or the backend ends. Returns the exit code. Raises StartError."""
    runner = Runner(settings)
    try:
        runner.start()
        with aws_client.hooked(runner.transactions):
            return asyncio.run(runner.serve())
    finally:
        runner.stop()


class Runner:
    """One run of the service."""

    def __init__(self, settings: Settings) -> None:
        """Reserve the port and lock the data directory. Raises StartError."""
        self._settings = settings
        self._socket = _bind(settings.port)
        self._data_dir = DataDir(settings.data_dir)
        self._stop = threading.Event()
        self._queues = Engine()
        self.transactions = _Transactions()
        self._backend: subprocess.Popen[bytes] | None = None
        self._forget_ready()

    def start(self) -> None:
        """Start everything except the HTTP server. Raises StartError."""
        _allow_open_files()
        access_key_id = self._data_dir.secret("credentials.json", {"access_key_id": lambda: secrets.token_hex(16)})
        self._data_dir.secret(
            "kms.json", {"key_id": lambda: str(uuid.uuid4()), "key_material": lambda: secrets.token_hex(32)}
        )
        say("Starting DynamoDB Local and the emulators of AWS …")
        os.environ.update(_aws_environment(access_key_id["access_key_id"]))
        # The backend reads this variable too: it forwards requests to SQS.
        os.environ["AWS_ENDPOINT_URL_SQS"] = sqs_endpoint.serve(self._queues)
        backend = self._start_backend()
        os.environ["AWS_ENDPOINT_URL"] = backend["aws_url"]
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = backend["dynamodb_url"]
        os.environ["AWS_ENDPOINT_URL_DYNAMODB_STREAMS"] = backend["dynamodb_url"]

        # One attempt: the endpoint is on loopback, and a damaged database should be reported at once.
        config = Config(retries={"total_max_attempts": 1}, read_timeout=60, max_pool_connections=64)
        stream_arn = resources.ensure_table(boto3.client("dynamodb", config=config), self._data_dir.path)
        addresses = resources.create_queues(boto3.client("sqs", config=config))
        machines = resources.create_state_machines(boto3.client("stepfunctions", config=config), addresses)
        s3 = boto3.client("s3", config=config)
        recordings, erasures, failed_batches = (
            resources.create_bucket(s3, name)
            for name in (resources.RECORDINGS, resources.ERASURES, resources.FAILED_BATCHES)
        )
        # What only `infra.manage` needs.
        self._for_operators = {"recordings": recordings, "erasures": erasures, "failed_batches": failed_batches}
        self._for_operators["speed"] = f"{self._settings.speed:g}"
        self._queue_urls = {name: address.url for name, address in addresses.items()}
        deployment = topology.Deployment(
            table=resources.TABLE_NAME,
            queues=self._queue_urls,
            machines=machines,
            signing_key=backend["signing_key"],
            recordings=recordings,
            failed_batches=failed_batches,
            erasures=erasures,
            base_url=f"http://127.0.0.1:{self._socket.getsockname()[1]}",
        )
        for function in topology.FUNCTIONS:
            os.environ |= function.environment(deployment)
        os.environ |= {"SPEED": f"{self._settings.speed:g}", "ALLOW_LOOPBACK_RECEIVERS": "1", "SIMULATE_LIVE": "1"}
        os.environ |= {"SIGN_IN_LINKS": "1", "VENDORED": str(_ROOT / "node_modules")}
        os.environ.setdefault("LOG_LEVEL", "INFO")
        # The only variable whose value differs between functions. Here, they share a process.
        os.environ["SERVICE_NAME"] = "local"

        _log_to(self._data_dir.path / "service.log")
        # Imported here because these modules import `shared`, which reads the environment set above.
        from infra.local import demo, log_lines
        from infra.openapi.document import document

        self._data_dir.save(API_DESCRIPTION, document())
        os.environ["OPENAPI_FILE"] = str(self._data_dir.path / API_DESCRIPTION)
        os.environ["CLI_FILE"] = str(self._data_dir.path / CLI_ARCHIVE)
        Path(os.environ["CLI_FILE"]).write_bytes(archive())
        self._functions = Lambdas(topology.FUNCTIONS)
        self._facts: dict[str, Any] = {
            "dynamodb_url": backend["dynamodb_url"],
            "aws_url": backend["aws_url"],
            "table_name": resources.TABLE_NAME,
            "projects": demo.ensure(self._data_dir),
        }
        streams = aws_client.AwsClient(stream.STREAMS, credentials.Source())
        for function in topology.FUNCTIONS:
            if function.reads_logs:
                log_lines.start(function, self._functions, self._stop)
            if function.stream:
                poller = stream.Poller(
                    function, function.stream, stream_arn, streams, self._functions, self._data_dir, self._stop
                )
                self._functions.after_call = poller.nudge
                poller.start()
            for source in function.queues:
                queue = self._queues.queue(addresses[source.queue].name)
                queues.Poller(function, source, queue, self._functions, self._stop).start()
        self._start_timers(clients=False)

    async def serve(self) -> int:
        """Serve HTTP until a signal arrives or the backend ends. Returns the exit code."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[int] = loop.create_future()

        def end(code: int) -> None:
            if not ended.done():
                ended.set_result(code)

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, end, 0)
        threading.Thread(target=self._watch_backend, args=(loop, end), daemon=True).start()
        threading.Thread(target=self._watch_disk, daemon=True).start()
        gateway = Gateway(self._socket, Routes(topology.FUNCTIONS), self._functions, self.transactions.wait)
        try:
            await gateway.start()
        except OSError:
            # Another process listens on the port since `_bind`.
            raise _port_in_use(self._socket.getsockname()[1]) from None
        self._start_timers(clients=True)
        ready = {"base_url": gateway.base_url, **self._admin(gateway.base_url), **self._facts}
        access_key_id = os.environ["AWS_ACCESS_KEY_ID"]
        more = {"region": names.REGION, "access_key_id": access_key_id, "queues": self._queue_urls}
        more |= self._for_operators
        self._data_dir.save("runner.json", ready | more)
        if self._settings.ready_file:
            write_json(self._settings.ready_file, ready)
        _introduce(ready, self._data_dir.path)
        code = await ended
        say("Stopping …")
        self._stop.set()
        await gateway.stop()
        return code

    def _admin(self, base_url: str) -> dict[str, str]:
        """The address of the admin pages, and a link that signs in the owner of the demo projects once."""
        from infra.local import demo

        return {"admin_url": f"{base_url}/admin", "admin_sign_in_url": demo.sign_in_url(base_url)}

    def stop(self) -> None:
        """Stop everything that was started."""
        self._stop.set()
        self._queues.close()
        self._forget_ready()
        if self._backend is None:
            return
        assert self._backend.stdin is not None
        with contextlib.suppress(OSError):
            self._backend.stdin.close()
        try:
            self._backend.wait(_BACKEND_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._backend.kill()

    def _start_timers(self, *, clients: bool) -> None:
        """Start the schedules that are on, of the functions that are clients of the API or of the others."""
        for function in topology.FUNCTIONS:
            on = not function.switch or getattr(self._settings, function.switch)
            if function.every_s and on and function.calls_api is clients:
                schedule.start(function, function.every_s, self._settings.speed, self._functions, self._stop)

    def _start_backend(self) -> dict[str, str]:
        folder = self._data_dir.path
        with (folder / "backend.log").open("wb") as log:
            self._backend = subprocess.Popen(
                [sys.executable, "-m", "infra.local.backend", str(folder)],
                cwd=_ROOT,
                # moto compares a state machine's times, which are in UTC, with the local time.
                env=os.environ | {"TZ": "UTC"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                # Ctrl-C must reach only this process, which stops the child in order.
                start_new_session=True,
            )
        assert self._backend.stdout is not None
        line = self._backend.stdout.readline()
        if not line:
            raise StartError(f"DynamoDB Local and the emulators of AWS did not start: see {folder / 'backend.log'}")
        answer: dict[str, str] = json.loads(line)
        if "error" in answer:
            raise StartError(answer["error"])
        if "warning" in answer:
            warn(answer["warning"])
        return answer

    def _watch_backend(self, loop: asyncio.AbstractEventLoop, end: Any) -> None:
        assert self._backend is not None
        self._backend.wait()
        if not self._stop.is_set():
            warn(f"make run: the database ended: see dynamodb.log and backend.log in {self._data_dir.path}")
            loop.call_soon_threadsafe(end, 1)

    def _watch_disk(self) -> None:
        """Warn each time that the disk becomes full. Requests fail with a 503 then, without a cause."""
        was_full = False
        while not self._stop.wait(_DISK_EVERY_S):
            if (full := self._data_dir.is_full) and not was_full:
                warn(f"make run: requests fail because {self._data_dir.full}")
            was_full = full

    def _forget_ready(self) -> None:
        self._data_dir.remove("runner.json")
        if self._settings.ready_file:
            self._settings.ready_file.unlink(missing_ok=True)


class _Transactions(aws_client.Hook):
    """Knows which threads have written a transaction, and waits until the database has committed it.

    DynamoDB Local responds to a transaction before it commits it. It runs all statements one after another, so a read
    returns after the commits before it.
    """

    one_at_a_time = False

    def __init__(self) -> None:
        self._thread = threading.local()

    def call(self, call: aws_client.AwsCall, proceed: Callable[[aws_client.AwsCall], Any]) -> Any:
        """Make the call."""
        if call.operation == "TransactWriteItems":
            self._thread.has_written = True
        return proceed(call)

    def wait(self) -> None:
        """Wait for the transactions of this thread."""
        from shared.store import table

        if vars(self._thread).pop("has_written", False):
            table.get("none", "none")


def _bind(port: int) -> socket.socket:
    """Bind the port before the slow steps. Connections are refused until the server listens. Raises StartError."""
    taken = socket.socket()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind(("127.0.0.1", port))
        # The bind can succeed although another process uses the port, so check that nothing listens on it.
        with socket.socket() as probe:
            if probe.connect_ex(taken.getsockname()) == 0:
                raise OSError
    except OSError:
        raise _port_in_use(port) from None
    return taken


def _port_in_use(port: int) -> StartError:
    return StartError(
        f"port {port} is in use: stop the process that uses it, or choose another port: make run PORT=8001"
    )


def _allow_open_files() -> None:
    """Raise the limit of open files: each of many threads has an event loop and connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, _OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _aws_environment(access_key_id: str) -> Mapping[str, str]:
    """Variables that keep clients from using the person's own AWS account, or a proxy."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        os.environ.pop(name, None)
    return {
        "AWS_ACCESS_KEY_ID": access_key_id,
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": names.REGION,
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }


def _log_to(path: Path) -> None:
    """Redirect standard output and error, which are the functions' log, to a file. Keeps one older file."""
    if path.exists() and path.stat().st_size > _LOG_SIZE:
        path.replace(path.with_suffix(".log.1"))
    file = path.open("a", buffering=1)
    path.chmod(0o600)
    sys.stdout = sys.stderr = file
    logging.basicConfig(stream=file, level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")


def _introduce(ready: Mapping[str, Any], folder: Path) -> None:
    say(f"\nServing {ready['base_url']}")
    for project in ready["projects"]:
        say(f"\n  Project {project['project_id']}, {project['name']}")
        say(f"    test key  {project['test_key']}")
        say(f"    live key  {project['live_key']}")
    say(f"\nAdmin pages: open this link to sign in. It works once.\n  {ready['admin_sign_in_url']}")
    key = ready["projects"][0]["test_key"]
    say(f"\nDocumentation: {ready['base_url']}/docs")
    say(f"\nTry:  curl {ready['base_url']}/v1/ping -H 'Authorization: Bearer {key}'")
    say(f"Logs and data are in {folder}. Ctrl-C stops everything.")
