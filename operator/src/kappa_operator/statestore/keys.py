"""The Secret with the keys of a bucket: it has to allow its use at the store before any pod gets it."""

from kappa_crds.stores import name_key_variables
from kappa_operator.engine.context import OperatorContext
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.engine.recent import MINUTE
from kappa_operator.errors import KappaError, SecretProblem
from kappa_operator.secrets import read_secret
from kappa_operator.statestore.storage import Storage, build_store_purpose


async def check_store_secret(context: OperatorContext, namespace: str, storage: Storage) -> None:
    """Raise SecretProblem where the Secret of a store, or a key of it, is missing or not allowed there."""
    if storage.secret is None or storage.bucket is None:
        return
    ref = ObjectRef("v1", "Secret", namespace, storage.secret)
    purpose = build_store_purpose(storage.bucket)
    await read_secret(context, ref, name_key_variables().values(), purpose, MINUTE)


async def require_consent(
    context: OperatorContext, namespace: str, storage: Storage | KappaError
) -> Storage | KappaError:
    """Return the store, or the problem of its Secret."""
    if isinstance(storage, KappaError):
        return storage
    try:
        await check_store_secret(context, namespace, storage)
    except SecretProblem as problem:
        return problem
    return storage
