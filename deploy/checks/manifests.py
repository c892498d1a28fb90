"""Checks in manifests what kubeconform cannot: that names lead somewhere, that the pod has no
needless rights, and that it is not killed before it has left.

    helm template throng deploy/helm/throng | python3 deploy/checks/manifests.py      (needs PyYAML)
"""

import pathlib
import sys

import yaml

# Any other kind is a KeyError, so that none goes unchecked.
KINDS = """ConfigMap Deployment HorizontalPodAutoscaler Ingress PodDisruptionBudget Service
ServiceMonitor StatefulSet"""
kinds = {kind: [] for kind in KINDS.split()}
for one in filter(None, yaml.safe_load_all(sys.stdin)):
    kinds[one["kind"]].append(one)
(workload,) = kinds["Deployment"] + kinds["StatefulSet"]
name, spec = workload["metadata"]["name"], workload["spec"]
pod, labels = spec["template"]["spec"], spec["template"]["metadata"]["labels"]
services = {service["metadata"]["name"]: service["spec"] for service in kinds["Service"]}

for one in [workload, *kinds["Service"], *kinds["PodDisruptionBudget"]]:
    selector = one["spec"]["selector"]
    selector = selector.get("matchLabels", selector)
    selects = selector and selector.items() <= labels.items()
    assert selects, f"{one['kind']} {one['metadata']['name']} selects no pod"

volumes = {one["name"] for one in pod["volumes"]}
if workload["kind"] == "StatefulSet":
    assert spec["serviceName"] in services, f"no service {spec['serviceName']}"
    volumes |= {claim["metadata"]["name"] for claim in spec.get("volumeClaimTemplates", [])}
for volume in pod["volumes"]:
    # Others are somebody else's.
    if volume["name"] == "config":
        (config,) = kinds["ConfigMap"]
        wanted = volume["configMap"]["name"]
        assert config["metadata"]["name"] == wanted, f"volume config: no ConfigMap {wanted}"

ports = set()
for container in pod["containers"]:
    own = {port["name"] for port in container["ports"]}
    ports |= own
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        to = container[probe].get("httpGet") or container[probe]["tcpSocket"]
        assert to["port"] in own, f"{probe}: no port {to['port']}"

    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    for mount in container["volumeMounts"]:
        assert mount["name"] in volumes, f"no volume {mount['name']}"
    # Files and folders that options name have to be in a volume: there is nothing else to write to.
    for variable in container["env"]:
        file = pathlib.PurePath(variable.get("value") or "")
        inside = not file.is_absolute() or any(map(file.is_relative_to, mounts))
        assert inside, f"{variable['name']}: {file} is in no volume"

    environment = {variable["name"]: variable.get("value") for variable in container["env"]}
    drain = int(environment["THRONG_DRAIN_TIMEOUT"].removesuffix("s"))
    leaving = container["lifecycle"]["preStop"]["sleep"]["seconds"] + drain
    grace = pod["terminationGracePeriodSeconds"]
    assert drain and grace > leaving, f"killed after {grace} s, but it leaves for {leaving} s"

    security = container["securityContext"]
    least = pod["securityContext"]["runAsNonRoot"] and security["readOnlyRootFilesystem"]
    assert least and security["allowPrivilegeEscalation"] is False, "more rights than it needs"

for service, of in services.items():
    for port in of["ports"]:
        to = port["targetPort"]
        assert to in ports, f"service {service}: no port {to}"
        assert to != "api" or of["type"] == "ClusterIP", f"service {service} shows the API outside"

for monitor in kinds["ServiceMonitor"]:
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    found = [one for one in kinds["Service"] if wanted <= one["metadata"]["labels"].items()]
    named = {port["name"] for one in found for port in one["spec"]["ports"]}
    for endpoint in monitor["spec"]["endpoints"]:
        assert endpoint["port"] in named, f"the monitor finds no port {endpoint['port']}"

for scaler in kinds["HorizontalPodAutoscaler"]:
    target = scaler["spec"]["scaleTargetRef"]
    agree = (target["kind"], target["name"]) == (workload["kind"], name) and "replicas" not in spec
    assert agree, "the scaler and what it scales do not agree"

for ingress in kinds["Ingress"]:
    for path in (path for rule in ingress["spec"]["rules"] for path in rule["http"]["paths"]):
        to = path["backend"]["service"]
        served = [port["name"] for port in services[to["name"]]["ports"]]
        assert to["port"]["name"] in served, f"the ingress leads to no port of {to['name']}"
