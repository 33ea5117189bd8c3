"""The change of a Pipeline that starts a Reprocessing."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kappa_crds import API_VERSION
from kappa_crds.kinds import find_kind
from kappa_crds.pipeline import PipelineSpec
from kappa_crds.reprocessing_policy import CutGate, Downstream
from kappa_crds.upgrade import SHADOW_MODES, UpgradeMode
from kappa_operator.cli.errors import CommandError
from kappa_operator.engine.cluster import ApiCluster
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.pipeline.backfill import list_added_sinks
from kappa_operator.pipeline.objects import PipelineResource
from kappa_operator.pipeline.shadow.model import BESIDE

Body = dict[str, Any]
_COMPUTED = ("sources", "views", "sinks", "deadLetter", "pythonFrom", "image")


@dataclass(frozen=True)
class Start:
    """The Pipeline as it is, as it will be, and the merge patch between both."""

    ref: ObjectRef
    present: PipelineResource
    wanted: PipelineResource
    patch: Body

    @property
    def is_changed(self) -> bool:
        """Return whether another version is computed than the present one."""
        was, now = (_list_computed(each.spec) for each in (self.present, self.wanted))
        return was != now


@dataclass(frozen=True, slots=True)
class RequestedPolicy:
    """What a person requests besides the policy of the spec: empty is as in the spec.

    `start` is the time of the first record that is read, `only` the condition of the rows that are computed.
    """

    what_if: bool = False
    downstream: bool = False
    start: str = ""
    warm_up: str = ""
    only: str = ""

    def apply(self, upgrade: Body) -> None:
        """Write it to spec.upgrade of a manifest."""
        policy = upgrade.setdefault("reprocessing", {})
        if self.what_if or self.start or self.only:
            policy.setdefault("gates", {})["cut"] = CutGate.NEVER.value
        if self.downstream:
            policy["downstream"] = Downstream.REPROCESS.value
        texts = {"from": self.start, "warmUp": self.warm_up, "only": self.only}
        policy |= {name: text for name, text in texts.items() if text}
        if not policy:
            del upgrade["reprocessing"]


PRESENT_POLICY = RequestedPolicy()


async def plan_start(
    api: ApiCluster,
    namespace: str,
    pipeline: str,
    changed: Body | None,
    nonce: str,
    *,
    policy: RequestedPolicy = PRESENT_POLICY,
) -> Start:
    """Return the change that starts a Reprocessing; CommandError where none can start."""
    ref = ObjectRef(API_VERSION, "Pipeline", namespace, pipeline)
    body = await api.get(ref)
    if body is None:
        raise CommandError(f'Pipeline "{pipeline}" not found in namespace "{namespace}"')
    present: PipelineResource = find_kind("Pipeline").parse(body)
    _check(present)
    try:
        spec = build_spec(body["spec"], changed, nonce, policy)
        wanted: PipelineResource = find_kind("Pipeline").parse({**body, "spec": spec})
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        raise CommandError(f"the manifest is not valid: {problems}") from error
    version = body["metadata"].get("resourceVersion")
    patch = {"metadata": {"resourceVersion": version}, "spec": build_patch(body["spec"], spec)}
    return Start(ref, present, wanted, patch)


def _check(present: PipelineResource) -> None:
    change, name = present.status.upgrade, present.metadata.name
    if change is not None and change.phase in BESIDE:
        raise CommandError(
            f"Pipeline {name} is being reprocessed ({change.phase}); see `kappa reprocess watch {name}`, then abort or finish it first"
        )
    if present.spec.suspend:
        raise CommandError(f"Pipeline {name} is suspended; a reprocessing needs it to run")
    if present.status.active.revision is None:
        raise CommandError(f"Pipeline {name} has not run yet, so there is nothing to reprocess")


def build_spec(
    present: Body, changed: Body | None, nonce: str, policy: RequestedPolicy = PRESENT_POLICY
) -> Body:
    """Return the spec that starts a Reprocessing: its mode is one of Shadow, and what is computed differs, or the nonce does."""
    spec = deepcopy(present if changed is None else changed)
    upgrade = spec.setdefault("upgrade", {})
    if upgrade.get("mode") not in SHADOW_MODES:
        upgrade["mode"] = UpgradeMode.SHADOW.value
    policy.apply(upgrade)
    is_altered = _describe_computed(present) != _describe_computed(spec)
    # A manifest that only adds a sink starts no Reprocessing without a nonce.
    is_altered = is_altered and not _adds_only(present, spec)
    if not is_altered or upgrade["mode"] != UpgradeMode.SHADOW:
        spec["reprocessNonce"] = nonce
    elif "reprocessNonce" in present:
        spec.setdefault("reprocessNonce", present["reprocessNonce"])
    return spec


def _adds_only(present: Body, wanted: Body) -> bool:
    before, after = PipelineSpec.model_validate(present), PipelineSpec.model_validate(wanted)
    return bool(list_added_sinks(before, after.replace(reprocess_nonce=before.reprocess_nonce)))


def _describe_computed(spec: Body) -> list[Any]:
    return _list_computed(PipelineSpec.model_validate(spec))


def _list_computed(spec: PipelineSpec) -> list[Any]:
    manifest = spec.to_manifest()
    return [manifest.get(name) for name in _COMPUTED]


def build_patch(present: Body, wanted: Body) -> Body:
    """Return the merge patch that makes a map equal to another one: what the other lacks is None."""
    patch: Body = dict.fromkeys(present.keys() - wanted.keys())
    for name, value in wanted.items():
        known = present.get(name)
        if isinstance(value, dict) and isinstance(known, dict):
            inner = build_patch(known, value)
            patch |= {name: inner} if inner else {}
        elif value != known:
            patch[name] = value
    return patch
