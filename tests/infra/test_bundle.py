"""The Lambda asset: what is in it, and that the same inputs give the same bytes."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from functions.admin import rendering
from infra import bundle
from infra.bundle import Bundle
from shared.core.api_description import API_DESCRIPTION, CLI_ARCHIVE
from shared.core.vendored import VENDORED_FILES
from shared.docs import pages


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("bundles")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def built_bundle(place: Path) -> Bundle:
    return bundle.build(builds=place / "one")


def test_the_same_inputs_give_the_same_bytes(built_bundle: Bundle, place: Path) -> None:
    again = bundle.build(builds=place / "two")
    assert again.digest == built_bundle.digest
    assert contents(again.folder) == contents(built_bundle.folder)


def test_it_holds_our_packages_and_theirs_and_fits_into_lambda(built_bundle: Bundle) -> None:
    templates = "functions/admin/templates/layout.html"
    vendored = [f"shared/pages/vendored/{name}" for name in VENDORED_FILES]
    ours = (
        "functions/ping.py",
        f"functions/{API_DESCRIPTION}",
        f"functions/{CLI_ARCHIVE}",
        "shared/store/keys.py",
        "shared/docs/content/webhooks.md",
        templates,
        "functions/admin/assets/admin.css",
        *vendored,
    )
    for part in (*ours, "boto3/__init__.py", "starlette/__init__.py"):
        assert (built_bundle.folder / part).is_file(), part
    assert not (built_bundle.folder / "infra").exists()
    assert built_bundle.size < 100e6  # Lambda's limit is 250 MB; a start gets slower long before


@pytest.mark.parametrize("name", VENDORED_FILES)
def test_a_vendored_file_is_the_one_that_the_list_names(name: str) -> None:
    file = bundle.NODE_MODULES / name
    described = next(path for folder in file.parents if (path := folder / "package.json").is_file())
    package = json.loads(described.read_text())
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert VENDORED_FILES[name] == (package["version"], package["license"], digest)
    assert package["version"] == json.loads((bundle.ROOT / "package.json").read_text())["dependencies"][package["name"]]


def test_every_vendored_file_is_loaded_by_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    # Both remember where the files are.
    monkeypatch.setenv("VENDORED", str(bundle.NODE_MODULES))
    loaded = pages.assets().by_name.keys() | rendering.assets().by_name.keys()
    assert {Path(name).name for name in VENDORED_FILES} <= loaded


def test_native_code_is_for_lambdas_processor_and_python(built_bundle: Bundle) -> None:
    libraries = [*built_bundle.folder.rglob("*.so*")]
    assert libraries
    for library in libraries:
        assert library.read_bytes()[18:20] == (183).to_bytes(2, "little"), f"{library.name} is not for arm64"
        assert "cpython" not in library.name or "cpython-313-" in library.name


def test_it_leaves_out_what_no_function_reads(built_bundle: Bundle) -> None:
    models = {path.name for path in (built_bundle.folder / "botocore" / "data").iterdir() if path.is_dir()}
    assert models == {*bundle.SERVICE_MODELS}
    for unwanted in ("awscrt", "aws_xray_sdk", "aws_cdk", "moto", "bin"):
        assert not (built_bundle.folder / unwanted).exists(), unwanted
    assert not [*built_bundle.folder.rglob("tests")]


def test_it_has_what_highlights_each_language_of_the_documentation(built_bundle: Bundle) -> None:
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from shared.docs import highlighting as it;"
        "assert all(it.highlight('x = 1', name) for name in it.LEXERS); print(it.lex.__code__.co_filename)"
    )
    command = [sys.executable, "-S", "-c", program, str(built_bundle.folder)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=built_bundle.folder)
    assert done.stdout.startswith(str(built_bundle.folder)), done
    assert {path.stem for path in (built_bundle.folder / "pygments/lexers").glob("*.py")} == bundle.LEXERS


def test_bytecode_is_for_every_module_never_checked_and_names_no_build_folder(built_bundle: Bundle) -> None:
    if not built_bundle.compiled:
        assert not [*built_bundle.folder.rglob("*.pyc")]
        pytest.skip(f"no Python {bundle.PYTHON} on this machine: the sources ship without bytecode")
    for source in built_bundle.folder.rglob("*.py"):
        compiled = source.parent / "__pycache__" / f"{source.stem}.cpython-313.pyc"
        content = compiled.read_bytes()
        assert content[4:8] == b"\x01\0\0\0", f"{compiled} is not an unchecked hash"
        assert str(built_bundle.folder).encode() not in content
        assert b".making-" not in content


def test_every_file_can_be_read_by_lambdas_user(built_bundle: Bundle) -> None:
    for path in (built_bundle.folder, *built_bundle.folder.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o755 if path.is_dir() else 0o644), path


def sources(folder: Path) -> Path:
    for package in bundle.PACKAGES:
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").write_text('"""Ours."""\n')
    return folder


def test_a_build_is_kept_until_a_source_or_a_requirement_changes(tmp_path: Path) -> None:
    ours, requirements = sources(tmp_path / "ours"), tmp_path / "runtime.txt"
    requirements.write_text("# none\n")

    def build() -> Bundle:
        return bundle.build(requirements=requirements, sources=ours, builds=tmp_path / "builds")

    first = build()
    marker = first.folder / "marker"
    marker.touch()
    assert build().folder == first.folder
    assert marker.exists(), "it was built again without a change"

    (ours / "shared" / "__init__.py").write_text('"""Changed."""\n')
    changed = build()
    assert changed.folder != first.folder
    assert changed.digest != first.digest

    for name in ("README.md", "DECISIONS.md"):
        (ours / "shared" / name).write_text("For people.\n")
    assert build().digest == changed.digest, "our own documents deploy nothing"

    requirements.write_text("# none, but otherwise\n")
    assert build().folder not in (first.folder, changed.folder)
    assert build().digest == changed.digest, "a comment deploys nothing"


@pytest.mark.parametrize("path", sorted(bundle.REQUIREMENTS.parent.glob("*.txt")), ids=lambda path: path.stem)
def test_every_pin_names_the_files_that_it_may_be(path: Path) -> None:
    pins = [line for line in path.read_text().replace("\\\n", " ").splitlines() if line and line[0] not in " #"]
    assert pins
    for pin in pins:
        assert re.match(r"[\w.-]+==\S+", pin), pin
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", pin), pin


def test_every_installation_insists_on_those_files() -> None:
    makefile = (bundle.ROOT / "Makefile").read_text().replace("\\\n", " ")
    installs = [line for line in makefile.splitlines() if re.search(r"\binstall\b.*--requirement", line)]
    assert installs
    assert all("--require-hashes" in line for line in installs)


def test_what_cannot_be_installed_is_said(tmp_path: Path) -> None:
    requirements = tmp_path / "runtime.txt"
    with pytest.raises(bundle.BundleError, match=r"runtime\.txt is missing"):
        bundle.build(requirements=requirements, builds=tmp_path / "builds")
    ours = sources(tmp_path / "ours")
    other = "idna==3.10 --hash=sha256:" + 64 * "0"
    for refused in ("not a requirement", "idna==3.10", other):
        requirements.write_text(f"{refused}\n")
        with pytest.raises(bundle.BundleError, match="could not be installed"):
            bundle.build(requirements=requirements, sources=ours, builds=tmp_path / "builds")
    assert not [*(tmp_path / "builds").iterdir()], "a failed build leaves nothing that the next one would take"
