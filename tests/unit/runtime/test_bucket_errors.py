"""What a failed request to a bucket becomes in a status: the cause, without a text of the server."""

import pytest

from kappa_pipelines.checkpoint.store.bucket import explain_refusal

_BEGIN = "Generic S3 error: Error performing PUT"


@pytest.mark.parametrize(
    ("error", "explained"),
    [
        (f"{_BEGIN} http://169.254.169.254/latest/api/token in 1ms - Server returned non-2xx status code: 403 Forbidden: no",
         "the pod has no keys and no identity of its own; set spec.s3.credentialsSecretRef"),
        (f"{_BEGIN} http://s3/state/a in 1ms - Server returned non-2xx status code: 403 Forbidden: http://169.254.169.254/",
         "the store refuses it (HTTP 403)"),
        (f"{_BEGIN} http://s3/state/a in 1ms - Server returned non-2xx status code: 404: <Code>NoSuchBucket</Code>",
         "NoSuchBucket (HTTP 404)"),
    ],
)  # fmt: skip
def test_the_cause_is_explained_without_the_text_of_a_server(error: str, explained: str) -> None:
    assert explain_refusal(ValueError(error)) == explained
