"""Stores that are mounted nowhere: buckets, and folders in HDFS. Each is checked in its own way."""

from collections.abc import Mapping

import aiohttp

from kappa_crds.resource import Resource
from kappa_crds.statestore import StateStoreSpec, StateStoreStatus
from kappa_operator.statestore.buckets import S3Buckets
from kappa_operator.statestore.hdfs import HdfsFolders


class RemoteStores:
    """Real stores."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._buckets = S3Buckets()
        self._folders = HdfsFolders(session)

    async def check(
        self, store: Resource[StateStoreSpec, StateStoreStatus], credentials: Mapping[str, str]
    ) -> None:
        """Write, read and delete a file or an object; raise StoreFailure with the store's own message."""
        if store.spec.hdfs is not None:
            await self._folders.check(store)
        else:
            await self._buckets.check(store, credentials)
