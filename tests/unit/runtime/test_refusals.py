"""Pods of executors that the API server refuses, as a person reads it (ADR 100)."""

import pytest

from kappa_crds.reasons import Reason
from kappa_pipelines.failures.refusals import explain_end, explain_refusal

CLIENT = (
    "Failure executing: POST at: https://10.96.0.1:443/api/v1/namespaces/shop/pods. Message: {text}. Received status:"
    " Status(apiVersion=v1, code=403, details=StatusDetails(causes=[], kind=pods, name=x), reason=Forbidden)."
)
BEGIN = "the API server refuses executors: "


@pytest.mark.parametrize(
    ("text", "explained"),
    [
        (
            'pods "orders-exec-7" is forbidden: exceeded quota: small, requested: limits.cpu=1,pods=1, used: limits.cpu=2,pods=3,'
            " limited: limits.cpu=2,pods=3",
            "ResourceQuota 'small' has no room: requested limits.cpu=1,pods=1, used limits.cpu=2,pods=3, limited limits.cpu=2,pods=3;"
            " raise it, or lower spec.resources",
        ),
        (
            'pods "orders-exec-7" is forbidden: failed quota: small: must specify limits.cpu for: executor; requests.cpu for: executor',
            "ResourceQuota 'small' wants limits.cpu for: executor; requests.cpu for: executor; set them, or change the quota",
        ),
        (
            'pods "orders-exec-7" is forbidden: violates PodSecurity "restricted:latest"',
            'violates PodSecurity "restricted:latest"',
        ),
        (
            "admission webhook denied the request: no. Really not",
            "admission webhook denied the request: no. Really not",
        ),
    ],
)
def test_a_refusal_names_the_quota_and_what_to_do_and_not_the_pod(text: str, explained: str) -> None:
    assert explain_refusal(CLIENT.format(text=text)) == BEGIN + explained


def test_another_message_of_the_client_stays_as_it_is_and_none_is_no_refusal() -> None:
    assert explain_refusal("Operation: [create] failed.") == f"{BEGIN}Operation: [create] failed."
    assert explain_refusal("") == ""
    assert len(explain_refusal("x" * 5000).encode()) <= 1100


@pytest.mark.parametrize(
    ("code", "reason"),
    [(3, Reason.DRIVER_OUT_OF_MEMORY), (11, Reason.EXECUTORS_FAILED), (137, Reason.DRIVER_CRASHED)],
)
def test_the_exit_code_of_the_jvm_names_why_it_ended(code: int, reason: Reason) -> None:
    error = explain_end(code)
    assert (error.reason, error.retryable) == (reason, True)
