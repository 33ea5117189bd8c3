"""Access of pods to a bucket of an S3-compatible store."""

from kappa_crds.model import Model

DEFAULT_KEYS = "AWS"
"""Prefix of the variables in which the Python and JVM clients expect keys by default."""


def name_key_variables(keys: str = DEFAULT_KEYS) -> dict[str, str]:
    """Return the variables in which a pod finds a bucket's keys, and the keys of the Secret that they come from."""
    return {f"{keys}_ACCESS_KEY_ID": "accessKeyId", f"{keys}_SECRET_ACCESS_KEY": "secretAccessKey"}


class BucketConnection(Model):
    """Where a bucket's store is. Keys are variables of the pod, see `name_key_variables`; without them it is the pod's own identity.

    A pod that reaches two stores finds the keys of each in variables of their own, whose names begin with `keys`.
    """

    endpoint: str | None = None
    """URL of the store; Amazon S3 where left out."""
    region: str
    path_style: bool = True
    has_keys: bool = True
    keys: str | None = None
