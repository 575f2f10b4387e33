"""Compose, `ray up` and KubeRay files: valid by their own parsers, secure, and ready for GPUs."""

import json
import os
import re
from pathlib import Path
from typing import Any

import compose_spec
import jsonschema
import pytest
import ray
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

from orchestrator.planning.arguments import search_options
from orchestrator.planning.planner import plan_from

ROOT = Path(__file__).parents[3]
DOCKER = ROOT / "docker"


def compose(name: str) -> dict[str, Any]:
    """A compose file with the defaults of its variables."""
    text = (DOCKER / name).read_text()
    return yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))


@pytest.fixture(scope="module")
def services():
    return compose("compose.yaml")["services"]


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_compose_files_follow_the_specification(name):
    parsed = compose_spec.PyCompose.from_json(json.dumps(compose(name)))
    if name == "compose.yaml":  # everything that it refers to is defined
        parsed.validate()
    parsed.to_spec()


def test_only_the_two_uis_are_published_and_only_locally(services):
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert published == {"mlflow": ["127.0.0.1:5000:5000"], "head": ["127.0.0.1:8265:8265"]}


def test_other_services_have_no_external_network(services):
    assert compose("compose.yaml")["networks"]["inside"] == {"internal": True}
    open_ = {name for name, each in services.items() if "outside" in each["networks"]}
    assert open_ == {"mlflow", "head", "sweep"}


def test_every_service_restarts_and_waits_for_its_dependencies(services):
    for name, each in services.items():
        special = {"sweep": "no", "worker": "always", "buckets": "on-failure"}
        assert each["restart"] == special.get(name, "unless-stopped")
        for needed, how in each.get("depends_on", {}).items():
            once = needed == "buckets"
            ready = "service_completed_successfully" if once else "service_healthy"
            assert how == {"condition": ready}
        ours = each["image"].startswith("tardis-lab")
        assert ours or "healthcheck" in each  # our image has one
    assert set(services["sweep"]["depends_on"]) == {"mlflow", "head", "worker"}
    assert set(services["mlflow"]["depends_on"]) == {"postgres", "buckets"}


def test_secrets_are_files_and_given_only_to_services_that_need_them(services):
    files = compose("compose.yaml")["secrets"]
    assert all(set(each) == {"file"} for each in files.values())
    used = {secret for each in services.values() for secret in each["secrets"]}
    assert used == files.keys()
    assert set(services["worker"]["secrets"]) == {"ray_token", "s3_credentials"}
    for each in services.values():
        for name, value in each.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|CREDENTIAL", name):
                assert str(value).startswith("/run/secrets/"), name
                assert str(value).removeprefix("/run/secrets/") in each["secrets"]


def test_data_is_in_named_volumes(services):
    named = compose("compose.yaml")["volumes"]
    assert services["postgres"]["volumes"][0].split(":")[0] in named
    assert services["s3"]["volumes"][0].split(":")[0] in named
    assert services["sweep"]["volumes"][0] == "sweeps:/lab/sweeps"


def test_our_containers_cannot_gain_privileges(services):
    for name, each in services.items():
        assert each["security_opt"] == ["no-new-privileges:true"]
        ours = each["image"].startswith("tardis-lab")  # the others change their user at start
        assert not ours or each["cap_drop"] == ["ALL"], name


def test_the_gpu_file_reserves_the_gpus_that_ray_is_given():
    worker = compose("compose.gpu.yaml")["services"]["worker"]
    (device,) = worker["deploy"]["resources"]["reservations"]["devices"]
    assert device["capabilities"] == ["gpu"]
    assert device["count"] == worker["environment"]["RAY_WORKER_GPUS"]


def test_ray_up_accepts_its_file():
    config = yaml.safe_load((DOCKER / "ray-cluster.yaml").read_text())
    whole = prepare_config(config)
    validate_config(whole)
    assert "/home/tardis/.ray/auth_token" in whole["file_mounts"]
    assert "--dashboard-host=127.0.0.1" in whole["head_start_ray_commands"][1]
    assert whole["available_node_types"]["gpu_worker"]["min_workers"] == 0


def manifests(name: str) -> dict[str, dict[str, Any]]:
    text = (DOCKER / "kuberay" / name).read_text()
    return {each["kind"]: each for each in yaml.safe_load_all(text)}


def cluster_spec(name: str) -> dict[str, Any]:
    resources = manifests(name)
    spec: dict[str, Any] = (resources.get("RayCluster") or resources["RayJob"])["spec"]
    return spec.get("rayClusterSpec", spec)


@pytest.mark.parametrize("name", ["cluster.yaml", "job.yaml"])
def test_kuberay_clusters_are_secure_and_autoscale_gpus(name):
    spec = cluster_spec(name)
    assert spec["rayVersion"] == ray.__version__
    assert spec["authOptions"]["mode"] == "token"
    assert spec["enableInTreeAutoscaling"] is True
    assert spec["headGroupSpec"]["rayStartParams"]["num-cpus"] == "0"
    (group,) = spec["workerGroupSpecs"]
    assert (group["minReplicas"], group["maxReplicas"]) == (0, 8)
    assert group["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == 1
    for template in (spec["headGroupSpec"]["template"], group["template"]):
        assert template["spec"]["securityContext"]["runAsNonRoot"] is True
        (container,) = template["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        for variable in container["env"]:
            assert not re.search("PASSWORD|SECRET|TOKEN", variable["name"]) or (
                "secretKeyRef" in variable["valueFrom"]
            )
    claim = spec["headGroupSpec"]["template"]["spec"]["volumes"][0]["persistentVolumeClaim"]
    assert claim["claimName"] == manifests(name)["PersistentVolumeClaim"]["metadata"]["name"]


def test_both_kuberay_files_describe_the_same_cluster():
    one, other = cluster_spec("cluster.yaml"), cluster_spec("job.yaml")
    assert one["workerGroupSpecs"] == other["workerGroupSpecs"]
    assert (
        one["headGroupSpec"]["template"]["spec"]["containers"]
        == (other["headGroupSpec"]["template"]["spec"]["containers"])
    )


def sweeps_in(text: str) -> list[list[str]]:
    """The arguments of the sweeps that a file starts, without the shell around them."""
    joined = re.sub(r"\s*\\?\n#?\s*", " ", text)
    commands = re.findall(r"(?:orchestrator\.sweep|entrypoint sweep) (ptb [^;'\"#]*)", joined)
    return [re.split(r" (?:Every|Words)", each)[0].split() for each in commands]


@pytest.mark.parametrize("name", ["ray-cluster.yaml", "kuberay/cluster.yaml", "kuberay/job.yaml"])
def test_the_sweep_of_each_file_is_a_valid_command(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (arguments,) = sweeps_in((DOCKER / name).read_text())
    plan = plan_from(search_options([*arguments, "--smoke"]))
    assert plan.autoscale
    assert plan.gpus_per_trial == 0.5


CRDS = os.environ.get("KUBERAY_CRDS", "")


@pytest.mark.skipif(not CRDS, reason="needs KUBERAY_CRDS, the folder config/crd/bases of KubeRay")
@pytest.mark.parametrize("name", ["cluster.yaml", "job.yaml"])
def test_kuberay_manifests_follow_the_schema(name):
    for kind, resource in manifests(name).items():
        if kind.startswith("Ray"):
            crd = yaml.safe_load((Path(CRDS) / f"ray.io_{kind.lower()}s.yaml").read_text())
            (version,) = [each for each in crd["spec"]["versions"] if each["name"] == "v1"]
            schema = closed(version["schema"]["openAPIV3Schema"])
            schema["properties"]["metadata"] = {}
            jsonschema.Draft7Validator(schema).validate(resource)


def closed(schema: Any) -> Any:
    """The schema with unknown keys forbidden, which Kubernetes would silently drop."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: closed(value) for key, value in schema.items()}
    if strict.get("type") == "object" and "properties" in strict:
        strict.setdefault("additionalProperties", False)
    if strict.get("x-kubernetes-int-or-string"):
        strict.pop("pattern", None)
    return strict
