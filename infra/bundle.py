"""Builds the one Lambda asset: pinned wheels for Linux on arm64, `functions`, `shared` and what `functions` serves.

    python -m infra.bundle        builds if anything has changed; prints folder, size and file count

It needs no Docker. The same sources and requirements produce the same bytes. Builds are cached under `cdk.out/` by a
hash of their inputs, so a synth without changes builds nothing.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin

from infra.cli_archive import archive
from infra.openapi.document import compact
from shared.core.api_description import API_DESCRIPTION, CLI_ARCHIVE
from shared.core.vendored import VENDORED_FILES

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "runtime.txt"
PACKAGES = ("functions", "shared")
BUILDS = ROOT / "cdk.out" / "bundles"
NODE_MODULES = ROOT / "node_modules"
VENDORED = Path("shared", "pages", "vendored")
"""The folder of the bundle that contains files of npm packages."""

PYTHON = "3.13"
PLATFORM = "aarch64-manylinux_2_28"
TASK_ROOT = "/var/task"
"""The folder in which Lambda unpacks the asset, and the path in tracebacks."""

SERVICE_MODELS = (
    "bedrock-runtime",
    "cognito-idp",
    "connect",
    "s3",
    "secretsmanager",
    "sns",
    "socialmessaging",
    "sts",
)
"""The service models of botocore and boto3 that the functions use. Hundreds of others are removed.

Our own client needs none for DynamoDB, SQS, Step Functions and KMS.
"""

LEXERS = {
    *("__init__", "_mapping", "_css_builtins", "_php_builtins", "css", "data", "dotnet", "go", "html", "javascript"),
    *("jvm", "php", "python", "ruby", "shell"),
}
"""The modules of `pygments.lexers` that the documentation's code needs. Hundreds of others are removed."""

UNWANTED_PACKAGES = ("awscrt", "aws_xray_sdk", "bin", "pygments/formatters", "pygments/styles")
"""botocore imports awscrt if it is installed, which slows every cold start."""

UNWANTED_FOLDERS = ("__pycache__", "test", "tests", "examples", "licenses", "sboms")
UNWANTED_SUFFIXES = (".pyc", ".pyi", ".pyx", ".pxd", ".c", ".h", ".hash", ".rst", ".md")

KEEP_OTHER_BUILDS_S = 3600
"""Seconds for which older builds are kept, because a concurrent synth may still be copying them."""


class BundleError(Exception):
    """The asset could not be built; the message says why and what to do."""


@dataclass(frozen=True)
class Bundle:
    """A built folder. `digest` is of its contents without bytecode. `compiled` says whether it contains bytecode."""

    folder: Path
    digest: str
    files: int
    size: int
    compiled: bool

    def __str__(self) -> str:
        bytecode = "with bytecode" if self.compiled else f"without bytecode, because Python {PYTHON} is not installed"
        return f"{self.folder}: {self.files} files, {self.size / 1e6:.1f} MB, {bytecode}"


def build(
    *,
    requirements: Path = REQUIREMENTS,
    sources: Path = ROOT,
    builds: Path = BUILDS,
    fresh: bool = False,
    platform: str = PLATFORM,
) -> Bundle:
    """The Lambda asset. It is built unless a build of the same inputs is cached; `fresh` always builds.

    `platform` is uv's name of the platform. The default is Lambda's; `make test-deploy` passes another one.
    """
    if not requirements.is_file():
        raise BundleError(f"{requirements} is missing: it lists the pinned packages of the functions")
    if missing := [name for name in VENDORED_FILES if not (NODE_MODULES / name).is_file()]:
        raise BundleError(f"{NODE_MODULES / missing[0]} is missing: run `npm ci`, as make does")
    python = find_python()
    description, cli = compact(), archive()
    folder = builds / _inputs(requirements, sources, python, platform, description.encode() + cli)
    if fresh or not folder.is_dir():
        builds.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=builds, prefix=".making-") as scratch:
            made = Path(scratch) / "bundle"
            _install(requirements, made, platform)
            _trim(made)
            unwanted = shutil.ignore_patterns("__pycache__", "README.md", "DECISIONS.md")
            for package in PACKAGES:
                shutil.copytree(sources / package, made / package, ignore=unwanted)
            for name in VENDORED_FILES:
                (made / VENDORED / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(NODE_MODULES / name, made / VENDORED / name)
            (made / "functions" / API_DESCRIPTION).write_text(description, encoding="utf-8")
            (made / "functions" / CLI_ARCHIVE).write_bytes(cli)
            if python:
                _compile(made, python)
            _open_up(made)
            if folder.is_dir():
                shutil.rmtree(folder)
            made.rename(folder)
    os.utime(folder)
    _forget_others(folder)
    return _measure(folder, compiled=python is not None)


def find_python() -> str | None:
    """A released Python of Lambda's version, whose bytecode Lambda can load; None if there is none."""
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    candidates = [
        sys.executable,
        f"python{PYTHON}",
        *(str(folder / "bin" / "python") for folder in sorted(pyenv.glob(f"{PYTHON}.*"))),
    ]
    question = "import sys; print('%d.%d %s' % (*sys.version_info[:2], sys.version_info.releaselevel))"
    for candidate in candidates:
        try:
            # -E -s: this process's PYTHONPATH may be for another version of Python.
            command = [candidate, "-E", "-s", "-c", question]
            answer = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue  # not installed, or a placeholder of a version manager
        if answer.stdout.strip() == f"{PYTHON} final":
            return candidate
    return None


def _install(requirements: Path, target: Path, platform: str) -> None:
    command = [find_uv_bin(), "pip", "install", "--quiet", "--target", str(target)]
    command += ["--python", sys.executable, "--python-platform", platform, "--python-version", PYTHON]
    command += ["--only-binary", ":all:", "--link-mode", "copy", "--require-hashes", "--requirements"]
    command += [str(requirements)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BundleError(f"the packages could not be installed:\n{done.stderr.strip()}")


def _trim(folder: Path) -> None:
    """Remove files of the installed packages that no function reads."""
    for name in UNWANTED_PACKAGES:
        shutil.rmtree(folder / name, ignore_errors=True)
    for library in ("botocore", "boto3"):
        for model in sorted((folder / library / "data").glob("*/")):
            if model.name not in SERVICE_MODELS:
                shutil.rmtree(model)
    for lexer in (folder / "pygments" / "lexers").glob("*.py"):
        if lexer.stem not in LEXERS:
            lexer.unlink()
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir():
            if path.name in UNWANTED_FOLDERS:
                shutil.rmtree(path)
        elif _unwanted(path):
            path.unlink()


def _unwanted(path: Path) -> bool:
    if path.parent.suffix == ".dist-info":
        # pydantic reads its plugins and email-validator's version here; nothing reads the other files.
        return path.name not in ("METADATA", "entry_points.txt")
    return path.suffix in UNWANTED_SUFFIXES or path.name.startswith((".", "examples-1.json"))


def _compile(folder: Path, python: str) -> None:
    command = [python, "-E", "-s", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
    command += ["-s", str(folder), "-p", TASK_ROOT, str(folder)]
    # One process and a fixed hash seed: the order of constants in bytecode depends on both.
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise BundleError(f"the sources do not compile:\n{done.stdout.strip()}\n{done.stderr.strip()}")


def _open_up(folder: Path) -> None:
    """Make everything readable for Lambda's user, whatever this process's umask is."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _forget_others(folder: Path) -> None:
    for other in folder.parent.iterdir():
        if other != folder and other.stat().st_mtime < time.time() - KEEP_OTHER_BUILDS_S:
            shutil.rmtree(other, ignore_errors=True)


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file())


def _inputs(requirements: Path, sources: Path, python: str | None, platform: str, generated: bytes) -> str:
    """A hash of the inputs of the asset, including this file."""
    seen = hashlib.sha256(f"{platform} compiled={python is not None}\n".encode() + generated)
    packages = (path for package in PACKAGES for path in _files(sources / package))
    for path in (Path(__file__), requirements, *(NODE_MODULES / name for name in VENDORED_FILES), *packages):
        if path.suffix != ".pyc":
            name = path.relative_to(sources) if path.is_relative_to(sources) else path.name
            seen.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return seen.hexdigest()[:32]


def _measure(folder: Path, *, compiled: bool) -> Bundle:
    digest = hashlib.sha256(f"compiled={compiled}\n".encode())
    files = size = 0
    for path in _files(folder):
        content = path.read_bytes()
        files, size = files + 1, size + len(content)
        if path.suffix != ".pyc":
            name = path.relative_to(folder).as_posix()
            digest.update(f"{name}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    return Bundle(folder, digest.hexdigest(), files, size, compiled)


def main() -> int:
    """Build the bundle and print its folder. Returns the exit status."""
    try:
        print(build())
    except BundleError as problem:
        print(f"bundle: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(
        prog="python -m infra.bundle",
        description=f"Build the Lambda asset in {BUILDS.relative_to(ROOT)}, unless a build of the same sources exists.",
    ).parse_args()
    sys.exit(main())
