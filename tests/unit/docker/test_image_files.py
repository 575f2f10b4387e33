"""The Dockerfile and its scripts: linted, and consistent with the code."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from orchestrator.execution.cluster import RAY_SETTINGS

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text()


def test_hadolint_finds_nothing():
    hadolint = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([hadolint, DOCKER / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def environment() -> dict[str, str]:
    joined = DOCKERFILE.replace("\\\n", " ")
    return dict(
        pair.split("=", 1)
        for line in re.findall(r"^ENV (.+)$", joined, re.MULTILINE)
        for pair in line.split()
    )


def test_the_image_detects_dead_nodes_as_fast_as_our_settings_say():
    ours = {name: value for name, value in RAY_SETTINGS.items() if "health_check" in name}
    assert ours
    assert ours.items() <= environment().items()


def test_trials_without_a_gpu_see_none():
    name = "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"
    assert environment()[name] == RAY_SETTINGS[name] == "1"


def test_security_settings_are_on():
    assert environment()["RAY_AUTH_MODE"] == "token"
    assert environment()["MLFLOW_ALLOW_PICKLE_DESERIALIZATION"] == "false"


def test_every_target_has_an_unprivileged_user_and_a_health_check():
    final = DOCKERFILE[DOCKERFILE.index(" AS base") :]
    assert "HEALTHCHECK" in final
    for stage in final.split("\nFROM "):
        users = re.findall(r"^USER (.+)$", stage, re.MULTILINE)
        assert users[-1:] in ([], ["1000:1000"]), stage  # without one: that of the base
    for target in ("cpu", "cuda"):
        assert f"FROM base AS {target}\n" in final


def test_the_cuda_image_has_what_triton_needs_at_run_time():
    stage = DOCKERFILE[DOCKERFILE.index("FROM base AS cuda") : DOCKERFILE.index("FROM base AS cpu")]
    assert re.search(r"apt-get install .*\bgcc libc6-dev\b", stage)
    (cache,) = re.findall(r"TRITON_CACHE_DIR=(\S+)", stage)
    assert f"install --directory --owner tardis {cache}" in stage
    base = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", DOCKERFILE, re.MULTILINE)
    assert base == ["docker.io/library/python:3.11-slim-bookworm"]  # it has Python's headers


def test_copied_files_are_in_the_build_context():
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    assert allowed[1] == "*"
    sources = re.findall(r"^COPY (?:--chmod=\d+ )?((?:[\w./-]+ )+)[\w./-]+$", DOCKERFILE, re.M)
    named = {name for line in sources for name in line.split()} - {"."}
    assert named
    assert {f"!{name}" for name in named} <= set(allowed)
    for line in allowed:
        if line.startswith("!"):
            assert (ROOT / line[1:]).exists(), line


def test_the_requirements_of_the_image_are_pinned():
    command = [sys.executable, DOCKER / "requirements.py", ROOT / "pyproject.toml", "cluster"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert len(printed) == len(project["dependencies"]) + len(
        project["optional-dependencies"]["cluster"]
    )
    pins = {
        line.split("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    for requirement in printed:
        assert re.split(r"[\[>=]", requirement)[0].lower() in pins, requirement


def test_the_dockerfile_contains_no_secret():
    """Neither as a build argument nor as a variable of the image."""
    words = re.compile(r"(PASSWORD|SECRET|TOKEN)\w*=\S", re.IGNORECASE)
    assert not words.search(DOCKERFILE)


@pytest.fixture
def secrets(tmp_path):
    folder = tmp_path / "secrets"
    subprocess.run([DOCKER / "make-secrets.sh", folder], check=True, capture_output=True)
    return folder


def test_secrets_are_long_distinct_and_private(secrets):
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    texts = {path.name: path.read_text() for path in secrets.iterdir()}
    assert len(set(texts.values())) == len(texts) == 6
    assert all(len(text) >= 64 for text in texts.values())
    (identity,) = json.loads(texts["s3_identities"])["identities"]
    assert identity["credentials"][0]["secretKey"] in texts["s3_credentials"]


def test_existing_secrets_are_kept(secrets):
    before = {path.name: path.read_text() for path in secrets.iterdir()}
    subprocess.run([DOCKER / "make-secrets.sh", secrets], check=True, capture_output=True)
    assert {path.name: path.read_text() for path in secrets.iterdir()} == before


def entrypoint(*arguments: str, **variables: str) -> list[str]:
    """What the entrypoint would run, one argument per line, and its environment."""
    fake = Path(variables["PATH"].split(":")[0])
    for name in ("ray", "mlflow", "python"):
        (fake / name).write_text('#!/bin/sh\nprintf "%s\\n" "$0" "$@"; env\n')
        (fake / name).chmod(0o755)
    command = ["bash", DOCKER / "entrypoint.sh", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=variables)
    return done.stdout.splitlines()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "bin").mkdir()
    return f"{tmp_path / 'bin'}:{os.environ['PATH']}"


def test_the_entrypoint_reads_secrets_from_files(path, secrets):
    password = (secrets / "mlflow_password").read_text()
    output = entrypoint(
        "mlflow", PATH=path, MLFLOW_AUTH_ADMIN_PASSWORD_FILE=str(secrets / "mlflow_password")
    )
    assert f"MLFLOW_AUTH_ADMIN_PASSWORD={password}" in output
    assert "basic-auth" in output
    assert password not in output[: output.index("s3://mlflow") + 1]  # not on the command line


def test_the_head_takes_no_trials_and_its_dashboard_is_local(path):
    output = entrypoint("head", PATH=path)
    assert output[output.index("--num-cpus") + 1] == "0"
    assert output[output.index("--dashboard-host") + 1] == "127.0.0.1"


def test_a_worker_announces_its_resources(path):
    output = entrypoint("worker", PATH=path, RAY_WORKER_GPUS="2", RAY_HEAD_ADDRESS="there:1234")
    assert output[output.index("--address") + 1] == "there:1234"
    assert output[output.index("--num-gpus") + 1] == "2"
    assert "--num-cpus" not in output


def test_a_sweep_passes_its_arguments_on_unchanged(path):
    output = entrypoint("sweep", "ptb", "--name", "a b", PATH=path, RAY_HEAD_ADDRESS="head:6379")
    start = output.index("orchestrator.sweep")
    assert output[start + 1 : start + 4] == ["ptb", "--name", "a b"]
    assert "RAY_ADDRESS=head:6379" in output


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="needs shellcheck")
def test_the_scripts_pass_shellcheck():
    scripts = sorted(DOCKER.glob("*.sh"))
    subprocess.run(["shellcheck", *scripts], check=True)
