"""Every reason that a condition or an Event of the platform can carry, in one enum.

A reason is part of the interface: scripts and alerts compare it. It is added here, never spelled elsewhere, and
`docs/reference/reasons.md` is generated from the descriptions.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a condition is as it is. The docstring of each member group says which kind uses it."""

    # every kind
    RECONCILED = "Reconciled"
    RECONCILING = "Reconciling"
    INVALID_SPEC = "InvalidSpec"
    INTERNAL_ERROR = "InternalError"
    DELETION_BLOCKED = "DeletionBlocked"
    PAUSED = "Paused"

    # what a resource refers to
    CLUSTER_NOT_FOUND = "ClusterNotFound"
    CLUSTER_AMBIGUOUS = "ClusterAmbiguous"
    CLUSTER_NOT_READY = "ClusterNotReady"
    SECRET_NOT_FOUND = "SecretNotFound"  # noqa: S105 - a reason, not a secret
    SECRET_INCOMPLETE = "SecretIncomplete"  # noqa: S105 - a reason, not a secret

    # KafkaCluster
    CONNECTED = "Connected"
    BROKER_UNREACHABLE = "BrokerUnreachable"
    AUTHENTICATION_FAILED = "AuthenticationFailed"
    AUTHORIZATION_FAILED = "AuthorizationFailed"
    TLS_FAILED = "TlsFailed"
    KAFKA_ERROR = "KafkaError"

    # Topic
    SYNCED = "Synced"
    CREATED = "Created"
    ADOPTED = "Adopted"
    ALTERED = "Altered"
    DRIFT_REPAIRED = "DriftRepaired"
    TOPIC_CONFLICT = "TopicConflict"
    PARTITIONS_CANNOT_SHRINK = "PartitionsCannotShrink"
    REPLICATION_CANNOT_CHANGE = "ReplicationCannotChange"
    CLEANUP_CHANGE_UNSAFE = "CleanupChangeUnsafe"
    CONFIG_REFUSED = "ConfigRefused"
    TOPIC_RECREATED = "TopicRecreated"
    RETAINED = "Retained"
    DELETED = "Deleted"

    # StateStore
    STORE_VERIFIED = "StoreVerified"
    STORE_PROVISIONING = "StoreProvisioning"
    STORE_CHECK_FAILED = "StoreCheckFailed"
    STORE_FULL = "StoreFull"
    STORE_SIZE_REFUSED = "StoreSizeRefused"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    BUCKET_NOT_FOUND = "BucketNotFound"
    IN_USE = "InUse"

    # Pipeline: what it waits for
    STATE_STORE_NOT_FOUND = "StateStoreNotFound"
    STATE_STORE_AMBIGUOUS = "StateStoreAmbiguous"
    STATE_STORE_NOT_READY = "StateStoreNotReady"
    TOPIC_NOT_FOUND = "TopicNotFound"
    TOPIC_NOT_READY = "TopicNotReady"
    STOPPING_PREVIOUS = "StoppingPrevious"
    DRIVER_SCHEDULING = "DriverScheduling"
    DRIVER_UNSCHEDULABLE = "DriverUnschedulable"
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    DRIVER_STARTING = "DriverStarting"
    WAITING_FOR_EXECUTORS = "WaitingForExecutors"
    BACKING_OFF = "BackingOff"

    # Pipeline: what it does
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    REVISION_CREATED = "RevisionCreated"
    DRIVER_STARTED = "DriverStarted"
    DRIVER_STOPPED = "DriverStopped"

    # Pipeline: why a driver failed
    DRIVER_CRASHED = "DriverCrashed"
    DRIVER_OUT_OF_MEMORY = "DriverOutOfMemory"
    DRIVER_LOST = "DriverLost"
    DRIVER_UNRESPONSIVE = "DriverUnresponsive"
    GENERATION_FENCED = "GenerationFenced"
    INVALID_SCHEMA = "InvalidSchema"
    INVALID_SQL = "InvalidSql"
    UNKNOWN_COLUMN = "UnknownColumn"
    UNKNOWN_VIEW = "UnknownView"
    UNSUPPORTED_QUERY = "UnsupportedQuery"
    STATE_INCOMPATIBLE = "StateIncompatible"
    OFFSETS_LOST = "OffsetsLost"
    SOURCE_TOPIC_DELETED = "SourceTopicDeleted"
    CHECKPOINT_UNAVAILABLE = "CheckpointUnavailable"
    KAFKA_UNAVAILABLE = "KafkaUnavailable"
    QUERY_FAILED = "QueryFailed"
