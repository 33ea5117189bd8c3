"""What a podTemplate adds to driver and executors, how templates are merged, and what an installation refuses."""

from dataclasses import replace
from typing import Any

import pytest

from fakes.context import Operator
from kappa_crds.kinds import find_kind
from kappa_crds.pod_template import PodTemplate
from kappa_crds.revision import Revision
from kappa_operator.engine.pod_template import PINNED_ANNOTATION, apply_template, merge_templates
from kappa_operator.engine.restricted import PodOptions
from kappa_operator.pipeline.objects import build_driver, build_driver_rules, build_support
from kappa_operator.pipeline.revision import build_mounts, build_revision
from kappa_operator.settings import Settings
from kappa_operator.statestore.objects import build_storage
from unit.control.lives import PIPELINE, SPEC, Life, write
from unit.control.pipelines import DEPENDENCIES, IMAGES, pipeline
from unit.control.test_policy import DEFAULTS, RESTRICTED, build_namespace, read_defaults

Body = dict[str, Any]
TWO = {"resources": {"executors": {"count": 2}}}
LOOSE = replace(
    DEFAULTS,
    allowed_volumes=("emptyDir", "secret", "persistentVolumeClaim"),
    allowed_variable_sources=("secretKeyRef",),
)


def parse(**fields: Any) -> PodTemplate:
    metadata = {name: fields.pop(name) for name in ("labels", "annotations") if name in fields}
    main: Body = {name: fields.pop(name) for name in ("env", "volumeMounts") if name in fields}
    spec = fields | ({"containers": [{"name": "main", **main}]} if main else {})
    return PodTemplate.model_validate({"metadata": metadata, "spec": spec})


def template(**fields: Any) -> Body:
    return {"podTemplate": parse(**fields).to_manifest()}


def build(spec: Body, pods: PodOptions | None = None) -> tuple[Body, Revision]:
    """Return the driver of the pipeline, and its revision."""
    images, resource = replace(IMAGES, pods=pods or PodOptions()), pipeline({**TWO, **spec})
    revision = build_revision(resource, DEPENDENCIES, images)
    driver = build_driver(
        resource, revision, build_mounts(DEPENDENCIES), 1, "IfNotPresent", options=images.pods
    )
    return driver, revision


def test_maps_merge_by_key_lists_by_name_and_tolerations_are_appended() -> None:
    one, two = {"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}
    base = parse(
        labels={"team": "x", "tier": "1"}, nodeSelector={"pool": "old"}, tolerations=[one],
        env=[{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        volumes=[{"name": "scratch", "emptyDir": {}}], imagePullSecrets=[{"name": "one"}],
        volumeMounts=[{"name": "scratch", "mountPath": "/mnt/a"}], priorityClassName="low",
    )  # fmt: skip
    over = parse(
        labels={"tier": "2"}, nodeSelector={"pool": "new", "disk": "ssd"}, tolerations=[one, two],
        env=[{"name": "B", "value": "2"}, {"name": "C", "value": "2"}],
        volumes=[{"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}}], imagePullSecrets=[{"name": "two"}],
        volumeMounts=[{"name": "scratch", "mountPath": "/mnt/a", "readOnly": True}],
    )  # fmt: skip
    merged = merge_templates(base, over)
    assert merged.metadata.labels == {"team": "x", "tier": "2"}
    assert merged.spec.node_selector == {"pool": "new", "disk": "ssd"}
    assert [each.key for each in merged.spec.tolerations] == ["a", "b"]
    assert [(each.name, each.value) for each in merged.env] == [("A", "1"), ("B", "2"), ("C", "2")]
    assert [each.empty_dir and each.empty_dir.size_limit for each in merged.spec.volumes] == ["1Gi"]
    assert [each.name for each in merged.spec.image_pull_secrets] == ["one", "two"]
    assert [each.read_only for each in merged.mounts] == [True]
    assert merged.spec.priority_class_name == "low"


def test_the_role_wins_over_the_pipeline_and_the_pipeline_over_the_installation() -> None:
    pods = PodOptions(template=parse(labels={"a": "chart", "b": "chart", "c": "chart"}))
    own = template(labels={"a": "role"})
    driver, revision = build({**template(labels={"a": "common", "b": "common"}), "driver": own}, pods)
    labels = driver["metadata"]["labels"], revision.executor_pod["metadata"]["labels"]
    assert [[each[key] for key in "abc"] for each in labels] == [
        ["role", "common", "chart"],
        ["common", "common", "chart"],
    ]


def test_what_the_platform_sets_stays() -> None:
    hostile = PodTemplate.model_validate(
        {
            "metadata": {"labels": {"kappa-platform.io/role": "x", "team": "y"}},
            "spec": {"containers": [{"env": [{"name": "KAPPA_GENERATION", "value": "9"}]}]},
        }
    )
    driver, _ = build({})
    templated = apply_template(driver, hostile)
    assert templated["metadata"]["labels"] == driver["metadata"]["labels"] | {"team": "y"}
    assert templated["spec"] == driver["spec"]


def test_driver_and_executors_have_volumes_variables_and_placement() -> None:
    fields = {
        "volumes": [{"name": "rules", "configMap": {"name": "rules"}}],
        "env": [{"name": "REGION", "value": "eu"}],
        "volumeMounts": [{"name": "rules", "mountPath": "/mnt/rules"}],
        "tolerations": [{"key": "streaming", "operator": "Exists"}],
        "topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {}}],
    }
    driver, revision = build(template(**fields))
    bare = build({})
    for pod, before in ((driver, bare[0]), (revision.executor_pod, bare[1].executor_pod)):
        spec, (container,), (plain,) = pod["spec"], pod["spec"]["containers"], before["spec"]["containers"]
        assert [each["name"] for each in spec["volumes"]][-1] == "rules"
        assert container["volumeMounts"][-1]["mountPath"] == "/mnt/rules"
        assert container["env"][0] == {"name": "REGION", "value": "eu"}
        assert container["env"][1:] == plain["env"]
        assert spec["tolerations"][0]["key"] == "streaming"
        assert spec["topologySpreadConstraints"][0]["whenUnsatisfiable"] == "DoNotSchedule"
        assert spec["securityContext"] == before["spec"]["securityContext"]


def test_an_affinity_is_added_to_that_of_executors_to_the_node_of_their_driver() -> None:
    metadata = {
        "name": "default",
        "namespace": "flights",
        "uid": "s",
        "generation": 1,
        "resourceVersion": "1",
    }
    store = find_kind("StateStore").parse({"metadata": metadata, "spec": {"pvc": {"size": "1Gi"}}})
    dependencies = replace(DEPENDENCIES, storage=build_storage(store))
    own = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
    affinity = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    resource = pipeline({**TWO, **template(affinity=affinity)})
    pod = build_revision(resource, dependencies, IMAGES).executor_pod
    terms = pod["spec"]["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [each["topologyKey"] for each in terms] == ["kubernetes.io/hostname", "zone"]


@pytest.mark.parametrize(
    "change",
    [template(labels={"a": "b"}), {"driver": template(labels={"a": "b"})}, {"executors": template(nodeSelector={"a": "b"})},
     {"serviceAccount": {"annotations": {"example.com/role": "x"}}}],
)  # fmt: skip
def test_a_template_changes_the_revision(change: Body) -> None:
    assert build(change)[1].name != build({})[1].name


def test_where_a_template_is_written_does_not() -> None:
    one, two = template(labels={"a": "b"}), {"driver": template(labels={"a": "b"}), "executors": template(labels={"a": "b"})}  # fmt: skip
    assert build(one)[1].name == build(two)[1].name
    assert build(template())[1].name == build({})[1].name


def test_the_role_of_a_driver_pins_what_the_template_gives_executors() -> None:
    fields = {
        "labels": {"team": "flights"},
        "volumes": [{"name": "rules", "configMap": {"name": "rules"}}, {"name": "key", "secret": {"secretName": "key"}}],
        "tolerations": [{"key": "streaming", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "high",
        "nodeSelector": {"pool": "streaming"},
    }  # fmt: skip
    revision = build(template(**fields))[1]
    pins = "configMap/rules,label/team=flights,nodeSelector/pool=streaming,priorityClass/high,toleration/streaming/Exists//NoSchedule"
    assert revision.executor_pod["metadata"]["annotations"] == {PINNED_ANNOTATION: pins}
    rules = build_driver_rules([revision.executor_pod])
    assert rules[-1]["resourceNames"] == [f"secret/delays-rpc,secret/key,pvc/state;{pins}"]


def test_executors_have_an_account_only_for_an_identity() -> None:
    annotations = {"eks.amazonaws.com/role-arn": "arn:aws:iam::1:role/x"}
    resource = pipeline({**TWO, "serviceAccount": {"annotations": annotations}})
    revision = build_revision(resource, DEPENDENCIES, IMAGES)
    accounts = {
        each["metadata"]["name"]: each["metadata"].get("annotations")
        for each in build_support(resource, [revision.executor_pod])
        if each["kind"] == "ServiceAccount"
    }
    assert accounts == {"delays-driver": annotations, "delays-executor": annotations}
    assert revision.executor_pod["spec"]["serviceAccountName"] == "delays-executor"
    assert revision.executor_pod["spec"]["automountServiceAccountToken"] is False
    assert (
        revision.spark_conf["spark.kubernetes.authenticate.executor.serviceAccountName"] == "delays-executor"
    )
    bare = build_revision(pipeline(TWO), DEPENDENCIES, IMAGES)
    assert "serviceAccountName" not in bare.executor_pod["spec"]


def test_the_platform_can_assign_the_user() -> None:
    driver, revision = build({}, Settings(pod_user="assigned").pods)
    for pod in (driver, revision.executor_pod):
        assert pod["spec"]["securityContext"] == {
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        }


def test_the_operator_has_the_template_and_the_user_of_the_chart() -> None:
    team = "pipelines.podTemplate.metadata.labels.team=flights"
    assert read_defaults(team).pods == PodOptions(template=parse(labels={"team": "flights"}))
    assert read_defaults("podUser.source=Assigned").pods.user is None
    assert read_defaults("podUser.user=1000650000", "podUser.group=0").pods.user == (1000650000, 0, 1000)


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ('{"spec": {"hostNetwork": true}}', "hostNetwork"),
        ('{"metadata": {"labels": {"kappa-platform.io/role": "driver"}}}', "label kappa-platform.io/role"),
        ('{"spec": {"containers": [{"env": [{"name": "LD_PRELOAD", "value": "x"}]}]}}', "variable LD_PRELOAD"),
    ],
)  # fmt: skip
def test_a_template_of_the_installation_that_cannot_be_used_stops_the_operator(raw: str, named: str) -> None:
    with pytest.raises(ValueError, match="KAPPA_POD_TEMPLATE") as error:
        Settings.from_environment({"KAPPA_POD_TEMPLATE": raw})
    assert named in str(error.value)


async def start(settings: Settings, spec: Body, *others: Body) -> Operator:
    life = Life()
    for body in (build_namespace(RESTRICTED), *others):
        life.operator.cluster.put(body)
    life.operator.context = replace(life.operator.context, settings=settings)
    await life.prepare()
    write({**SPEC, **spec})(life)
    await life.settle()
    return life.operator


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        (template(volumes=[{"name": "x", "secret": {"secretName": "payroll"}}]), "allowedVolumes"),
        (template(volumes=[{"name": "x", "persistentVolumeClaim": {"claimName": "payroll"}}]), "allowedVolumes"),
        (template(volumes=[{"name": "x", "projected": {"sources": [{"secret": {"name": "payroll"}}]}}]), "x with a Secret"),
        (template(env=[{"name": "X", "valueFrom": {"secretKeyRef": {"name": "payroll", "key": "k"}}}]), "allowedVariableSources"),
        (template(tolerations=[{"key": "node-role.kubernetes.io/control-plane"}]), "allowedTolerations"),
        ({"driver": template(priorityClassName="system-node-critical")}, "allowedPriorityClasses: none"),
        ({"executors": template(runtimeClassName="host")}, "allowedRuntimeClasses: none"),
        ({"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "x"}}}, "allowedServiceAccountAnnotations: none"),
        (template(volumeMounts=[{"name": "nowhere", "mountPath": "/mnt/x"}]), "none of its volumes"),
    ],
)  # fmt: skip
async def test_what_the_installation_does_not_allow_starts_no_driver(spec: Body, named: str) -> None:
    operator = await start(DEFAULTS, spec)
    assert operator.get_condition(PIPELINE)[:2] == ("False", "NotAllowed")
    assert named in operator.get_condition(PIPELINE)[2]
    assert operator.cluster.find("v1", "Pod") == []


async def test_what_it_allows_is_in_the_pod() -> None:
    fields = {
        "volumes": [{"name": "x", "emptyDir": {}}],
        "volumeMounts": [{"name": "x", "mountPath": "/mnt/x"}],
    }
    operator = await start(DEFAULTS, template(**fields, labels={"team": "shop"}))
    assert operator.get_condition(PIPELINE)[0] == "True"
    drivers = [
        pod
        for pod in operator.cluster.find("v1", "Pod")
        if pod["metadata"]["labels"].get("kappa-platform.io/role") == "driver"
    ]
    assert [pod["metadata"]["labels"]["team"] for pod in drivers] == ["shop"]


def identify(arn: str) -> Body:
    return {"serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": f"arn:aws:iam::1:role/{arn}"}}}


async def test_an_identity_is_granted_to_one_namespace() -> None:
    pattern = "eks.amazonaws.com/role-arn=arn:aws:iam::1:role/{namespace}-*"
    settings = replace(DEFAULTS, allowed_account_annotations=(pattern,))
    own, foreign = await start(settings, identify("shop-x")), await start(settings, identify("payroll-x"))
    assert own.get_condition(PIPELINE)[0] == "True"
    assert foreign.get_condition(PIPELINE)[:2] == ("False", "NotAllowed")


@pytest.mark.parametrize(
    ("annotation", "ready"), [(None, "False"), ("other, -*", "False"), ("other,*", "True")]
)
async def test_a_secret_has_to_agree(annotation: str | None, ready: str) -> None:
    notes = {} if annotation is None else {"secrets.kappa-platform.io/pods": annotation}
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "api", "namespace": "shop", "annotations": notes},
        "data": {},
    }
    source = {"secretKeyRef": {"name": "api", "key": "key"}}
    operator = await start(LOOSE, template(env=[{"name": "API_KEY", "valueFrom": source}]), secret)
    status, reason, message = operator.get_condition(PIPELINE)
    assert status == ready, message
    assert ready == "True" or (reason == "SecretNotAllowed" and "kubectl annotate secret api" in message)
