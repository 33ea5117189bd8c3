"""The only way to the Kubernetes API.

`ApiCluster` is the seam: the tests' in-memory twin overrides it, keeps objects in a dict and can die at any write.
Writes use server-side apply with the platform's field manager.
Connection settings come from the official client's configuration loader, so that kubeconfig and in-cluster accounts
work as usual.
"""

import json
import os
import re
import ssl
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import aiohttp
from kubernetes.client import Configuration
from kubernetes.config import ConfigException, load_incluster_config, load_kube_config
from yaml import YAMLError

from kappa_crds import API_VERSION, FIELD_MANAGER
from kappa_crds.kinds import KINDS
from kappa_operator.engine.keys import ObjectRef
from kappa_operator.errors import (
    AlreadyExists,
    ApiUnavailable,
    Conflict,
    NotActing,
    NotFound,
    Refused,
)
from kappa_operator.fair import FairSlots

Body = dict[str, Any]

PLURALS: Mapping[tuple[str, str], str] = {
    ("v1", "Pod"): "pods",
    ("v1", "Secret"): "secrets",
    ("v1", "Service"): "services",
    ("v1", "ConfigMap"): "configmaps",
    ("v1", "ServiceAccount"): "serviceaccounts",
    ("v1", "PersistentVolumeClaim"): "persistentvolumeclaims",
    ("v1", "Namespace"): "namespaces",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("policy/v1", "PodDisruptionBudget"): "poddisruptionbudgets",
    ("rbac.authorization.k8s.io/v1", "Role"): "roles",
    ("rbac.authorization.k8s.io/v1", "RoleBinding"): "rolebindings",
    ("coordination.k8s.io/v1", "Lease"): "leases",
    ("networking.k8s.io/v1", "NetworkPolicy"): "networkpolicies",
    ("authentication.k8s.io/v1", "TokenReview"): "tokenreviews",
    ("authorization.k8s.io/v1", "SubjectAccessReview"): "subjectaccessreviews",
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): "selfsubjectaccessreviews",
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): "validatingwebhookconfigurations",
    ("v1", "Event"): "events",
    ("events.k8s.io/v1", "Event"): "events",
    **{(API_VERSION, kind.name): kind.plural for kind in KINDS},
}
_TOKEN_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
PAGE = 50
"""Objects in one response: each of a tenant may have more than a megabyte."""
_CONNECTIONS = 64
_NAMESPACE = re.compile("/namespaces/([^/]+)")
_LIMITS = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=30)
"""Seconds. The wait for one of the connections does not count: else a burst of requests would fail itself."""


class ApiCluster:
    """The API server, over one pool of connections, which namespaces share."""

    def __init__(self, configuration: Configuration, session: aiohttp.ClientSession) -> None:
        self._configuration = configuration
        self._host = configuration.host.rstrip("/")
        self._session = session
        self._slots = FairSlots(_CONNECTIONS)

    @classmethod
    async def connect(cls, context: str | None = None) -> Self:
        """Return a connection from the pod's service account or the kubeconfig; raise ApiUnavailable without one."""
        try:
            configuration = load_configuration(context)
            tls = _build_ssl(configuration)
        except (OSError, ValueError, TypeError, AttributeError, KeyError, YAMLError) as error:
            raise ApiUnavailable(f"the kubeconfig cannot be used: {error}; check KUBECONFIG") from error
        connector = aiohttp.TCPConnector(ssl=tls, limit=_CONNECTIONS)
        session = aiohttp.ClientSession(connector=connector, timeout=_LIMITS)
        return cls(configuration, session)

    async def close(self) -> None:
        """Close the connections."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(self, ref: ObjectRef) -> Body | None:
        """Return the object, None where it does not exist."""
        try:
            return await self._request("GET", build_path(ref))
        except NotFound:
            return None

    async def list_objects(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
    ) -> list[Body]:
        """Return the objects of a kind, in one namespace or all, that carry the labels and match the field selector."""
        pages = self.list_pages(api_version, kind, namespace, labels, fields)
        return [item async for page in pages for item in page]

    async def list_pages(
        self,
        api_version: str,
        kind: str,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        fields: str = "",
    ) -> AsyncIterator[list[Body]]:
        """Yield the same page by page, so that ten thousand objects are never in memory at once."""
        path = build_collection_path(api_version, kind, namespace)
        query = {"limit": str(PAGE)}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        if fields:
            query["fieldSelector"] = fields
        while True:
            page = await self._request("GET", path, query)
            yield [{"apiVersion": api_version, "kind": kind, **item} for item in page["items"]]
            token = page["metadata"].get("continue")
            if not token:
                return
            query["continue"] = token

    async def create(self, manifest: Body) -> Body:
        """Create the object; raise AlreadyExists where one of that name exists."""
        ref = ObjectRef.of(manifest)
        path = build_collection_path(ref.api_version, ref.kind, ref.namespace)
        return await self._request("POST", path, {"fieldManager": FIELD_MANAGER}, manifest)

    async def replace(self, manifest: Body) -> Body:
        """Replace the object; raise Conflict where its resource version is not the manifest's."""
        path = build_path(ObjectRef.of(manifest))
        return await self._request("PUT", path, {"fieldManager": FIELD_MANAGER}, manifest)

    async def apply(self, manifest: Body, manager: str | None = None) -> Body:
        """Server-side apply the manifest, as the operator's field manager or another one, which takes over conflicting fields."""
        return await self._apply(build_path(ObjectRef.of(manifest)), manifest, manager)

    async def apply_status(self, manifest: Body) -> Body:
        """Server-side apply the status subresource; a resource version in the metadata must match."""
        return await self._apply(build_path(ObjectRef.of(manifest)) + "/status", manifest)

    async def delete(self, ref: ObjectRef, uid: str | None = None) -> None:
        """Delete the object if it still has this uid; a missing or another object is fine."""
        options: Body = {"propagationPolicy": "Background"}
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        try:
            await self._request("DELETE", build_path(ref), None, options)
        except (NotFound, Conflict):
            return

    async def try_out(self, manifest: Body) -> Body:
        """Return the object as the API server would store it, defaults filled in; raise Refused with its reasons."""
        path = build_path(ObjectRef.of(manifest))
        query = {"fieldManager": "kappa-plan", "force": "true", "dryRun": "All", "fieldValidation": "Strict"}
        return await self._request("PATCH", path, query, manifest, "application/apply-patch+yaml")

    async def merge(self, ref: ObjectRef, patch: Body, manager: str = "kappa-cli") -> Body:
        """Merge a patch into an object, where None takes a field away: as a user's change, with another field manager than the operator's."""
        query = {"fieldManager": manager, "fieldValidation": "Strict"}
        return await self._request("PATCH", build_path(ref), query, patch, "application/merge-patch+json")

    async def may(self, verb: str, resource: str, namespace: str) -> bool:
        """Return whether this account has a permission of the core group in a namespace."""
        spec = {"resourceAttributes": {"verb": verb, "resource": resource, "namespace": namespace}}
        status = await self.review("authorization.k8s.io/v1", "SelfSubjectAccessReview", spec)
        return bool(status.get("allowed"))

    async def review(self, api_version: str, kind: str, spec: Body) -> Body:
        """Return the status of a review, which the API server makes and does not store."""
        path = build_collection_path(api_version, kind, None)
        body = await self._request(
            "POST", path, None, {"apiVersion": api_version, "kind": kind, "spec": spec}
        )
        status: Body = body.get("status") or {}
        return status

    async def request_token(self, account: ObjectRef, audience: str, seconds: int) -> str:
        """Return a token of a service account that only this audience accepts, for so many seconds."""
        spec = {"audiences": [audience], "expirationSeconds": seconds}
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        body = await self._request("POST", f"{build_path(account)}/token", None, request)
        return str(body["status"]["token"])

    async def ask_service(
        self,
        service: ObjectRef,
        port: str,
        path: str,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Body:
        """Return the JSON that a pod of a Service answers, through the API server's proxy.

        `port` is the name of a port. The proxy forwards headers, but not that with the user's own token.
        """
        scheme = "https:" if headers else ""
        path = f"{build_collection_path('v1', 'Service', service.namespace)}/{scheme}{quote(service.name)}:{quote(port)}/proxy{path}"
        return await self._request("GET", path, query, headers=headers)

    async def read_log(self, pod: ObjectRef, seconds: int, most_bytes: int) -> str:
        """Return what a pod with one container has logged within the last seconds, at most so many bytes from there on."""
        query = {"sinceSeconds": str(seconds), "limitBytes": str(most_bytes)}
        headers = {"Accept": "*/*"}
        return (await self._read("GET", f"{build_path(pod)}/log", query, headers=headers)).decode(
            errors="replace"
        )

    async def _apply(self, path: str, manifest: Body, manager: str | None = None) -> Body:
        query = {"fieldManager": manager or FIELD_MANAGER, "force": "true"}
        return await self._request("PATCH", path, query, manifest, "application/apply-patch+yaml")

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Body:
        parsed: Body = json.loads(await self._read(method, path, query, body, content_type, headers=headers))
        return parsed

    async def _read(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | None = None,
        content_type: str = "application/json",
        *,
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the answer as it is; raise KubernetesError."""
        headers = {"Accept": "application/json", **(headers or {}), **_authorise(self._configuration)}
        if body is not None:
            headers["Content-Type"] = content_type
        data = None if body is None else json.dumps(body)
        found = _NAMESPACE.search(path)
        try:
            async with (
                self._slots.hold(found[1] if found else ""),
                self._session.request(
                    method, self._host + path, params=query, data=data, headers=headers
                ) as response,
            ):
                payload = await response.read()
                status = response.status
        except (TimeoutError, aiohttp.ClientError) as error:
            raise ApiUnavailable(
                f"the API server at {self._host} did not respond: {str(error) or type(error).__name__}"
            ) from error
        if status >= 400:
            raise _build_error(status, method, path, payload)
        return payload


def load_configuration(context: str | None = None) -> Configuration:
    """Return the client configuration of the pod's service account, or of the kubeconfig; raise ApiUnavailable without one."""
    configuration = Configuration()
    if context is None and _TOKEN_FILE.exists():
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        return configuration
    try:
        # Named here because the library reads the variable only once, when it is imported.
        load_kube_config(  # type: ignore[no-untyped-call]
            config_file=os.environ.get("KUBECONFIG"), context=context, client_configuration=configuration
        )
    except ConfigException as error:
        raise ApiUnavailable(f"no Kubernetes cluster is configured: {error}; set KUBECONFIG") from error
    return configuration


def _authorise(configuration: Configuration) -> dict[str, str]:
    """Return the header with the token. The client's configuration renews it from files and log-in plugins."""
    token = configuration.get_api_key_with_prefix("BearerToken", alias="authorization")
    return {"Authorization": token} if token else {}


def _build_ssl(configuration: Configuration) -> ssl.SSLContext | bool:
    if not configuration.host.startswith("https"):
        return False
    context = ssl.create_default_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def build_collection_path(api_version: str, kind: str, namespace: str | None) -> str:
    """Return the URL path of all objects of a kind; raise KeyError for a kind that the operator never touches."""
    root = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
    scope = f"/namespaces/{quote(namespace)}" if namespace and kind != "Namespace" else ""
    return f"{root}{scope}/{PLURALS[api_version, kind]}"


def build_path(ref: ObjectRef) -> str:
    """Return the URL path of one object."""
    return f"{build_collection_path(ref.api_version, ref.kind, ref.namespace)}/{quote(ref.name)}"


def _build_error(status: int, method: str, path: str, payload: bytes) -> Exception:
    try:
        document = json.loads(payload)
        text, word = document.get("message", ""), document.get("reason", "")
    except ValueError:
        text, word = payload.decode(errors="replace")[:500], ""
    message = f"{method} {path}: {text or status}"
    if status == 404:
        return NotFound(message)
    if status == 409:
        return AlreadyExists(message) if word == "AlreadyExists" else Conflict(message)
    if status == 421:
        return NotActing(message)
    if status in (410, 429) or status >= 500:
        return ApiUnavailable(message)
    return Refused(message)
