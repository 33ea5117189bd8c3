"""Changes of the columns of a source's tables: noticed by the checks, and followed or refused by the policy of the spec.

The columns that the source goes by are in its status. Under Refuse they stay until the change is accepted or undone, and the connector is
stopped meanwhile. What it read between the change and the check is in the topics already.
"""

import hashlib
import json
from datetime import datetime
from typing import Any

from kappa_crds.cdcsource_requests import SchemaChanges, SchemaPolicy
from kappa_crds.cdcsource_status import SchemaStatus
from kappa_crds.reasons import Reason
from kappa_operator import intervals
from kappa_operator.cdc.shapes import compare, digest_tables, unpack
from kappa_operator.cdc.work import DatabaseResult
from kappa_operator.cdcsource.model import CDCSourceObserved, build_status
from kappa_operator.cdcsource.objects import CDCSourceResource
from kappa_operator.connect.model import STOPPED
from kappa_operator.engine import actions as act
from kappa_operator.engine.plan import Plan, stalled

_MOST = 8


def fold_schema(
    observed: CDCSourceObserved, result: DatabaseResult
) -> tuple[SchemaStatus | None, tuple[act.EmitEvent, ...]]:
    """Return the columns that the source goes by after a check, with an Event about what has changed."""
    resource, known = observed.resource, observed.resource.status.tables_schema
    if not result.columns:
        return known, ()
    scope = _compute_scope(resource)
    found = SchemaStatus(fingerprint=result.fingerprint, columns=result.columns, scope=scope)
    if known is None or known.scope != scope:
        return found, ()
    if known.fingerprint == found.fingerprint:
        columns = max(known.columns, found.columns, key=len)  # one may have digests in place of columns
        return known.replace(columns=columns, refused=None, changes=()), ()
    changes = tuple(compare(unpack(known.columns), unpack(found.columns)))
    texts, policy = _cut([each.text for each in changes]), _get_policy(resource)
    is_refused = policy.policy is SchemaPolicy.REFUSE and any(each.breaking for each in changes)
    if is_refused and policy.accept != found.fingerprint:
        return known.replace(
            refused=found.fingerprint, changes=texts
        ), ()  # the condition Ready leads to an Event
    return found, (act.EmitEvent(Reason.SCHEMA_CHANGED, _explain(resource, texts)),)


def _get_policy(resource: CDCSourceResource) -> SchemaChanges:
    return resource.spec.schema_changes or SchemaChanges()


def _compute_scope(resource: CDCSourceResource) -> str:
    """Return a text that changes with the tables and columns that are read: another choice of them is no change of the database."""
    columns = resource.spec.columns.exclude if resource.spec.columns else ()
    chosen = [resource.spec.tables.to_manifest(), columns]
    return hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:8]


def _explain(resource: CDCSourceResource, texts: tuple[str, ...]) -> str:
    message = "; ".join(texts)
    # Sources of other databases read a table from the statement that created it.
    if resource.spec.postgresql is not None and any(text.endswith("was added") for text in texts):
        message += (
            f". Changes of a table that was added are read from now on; for the rows that it has already, run: kappa cdc snapshot"
            f" {resource.metadata.name} --table TABLE"
        )
    return message


def _cut(texts: list[str]) -> tuple[str, ...]:
    return tuple(texts) if len(texts) <= _MOST else (*texts[:_MOST], f"{len(texts) - _MOST} more changes")


def stop_refused(observed: CDCSourceObserved, now: datetime) -> Plan | None:
    """Stop a connector whose tables were changed against the policy, until that is accepted or undone."""
    resource, connector = observed.resource, observed.connector
    schema, policy = resource.status.tables_schema, _get_policy(resource)
    if schema is None or schema.refused is None or connector is None:
        return None
    if policy.policy is SchemaPolicy.FOLLOW or policy.accept == schema.refused:
        return None
    log = "keeps its log" if resource.spec.postgresql else "removes its log by age"
    message = (
        f"{'; '.join(schema.changes)}. The connector is stopped, and the database {log}. To accept the change, set"
        f" spec.schemaChanges.accept to {schema.refused}; undone, it continues at the next check"
    )
    status = build_status(observed, stalled("Refused", Reason.SCHEMA_REFUSED, message), now)
    if connector.state == STOPPED:
        return Plan((), status, intervals.BLOCKED)
    stop = act.SetConnectorState(observed.cluster_key, resource.metadata.name, STOPPED)
    return Plan(() if observed.failures else (stop,), status, intervals.WORKING)


def describe_tables(resource: CDCSourceResource) -> dict[str, Any]:
    """Return the property that changes with the tables: Debezium adds tables to its publication when its task starts."""
    schema = resource.status.tables_schema
    if schema is None or resource.spec.postgresql is None:
        return {}
    return {"kappa.tables": digest_tables(unpack(schema.columns))}
